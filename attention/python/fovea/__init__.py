"""fovea's attention methods on NumPy arrays and PyTorch tensors, forward and backward, on the CPU.

Arrays pass through DLPack without a copy. float32, float64 and bfloat16 are possible; bfloat16 is computed in float32.
What is wrong with an argument is a ValueError.
"""
import sys

import numpy

from . import _fovea

__all__ = ["attend", "methods", "describe", "load_methods", "parameters"]


def _shape(query, key, value, step_input, heads, place, dropout=0.0, layer=0, layers=1):
    key = query if key is None else key
    value = key if value is None else value
    for name, array in (("query", query), ("key", key), ("value", value)):
        if getattr(array, "ndim", None) != 3:
            raise ValueError(f"{name}: expected an array [sentences, tokens, width]")
    return _fovea.Shape(
        model_dim=query.shape[2], heads=heads, layer=layer, layers=layers, place=place, dropout=dropout,
        key_dim=key.shape[2], value_dim=value.shape[2], step_dim=0 if step_input is None else step_input.shape[-1])


def _like(array, result):
    """The result as an array of the library that `array` belongs to."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return torch.from_dlpack(result)
    return numpy.from_dlpack(result)


def _without_gradient(array):
    """A tensor of PyTorch that requires a gradient does not pass through DLPack."""
    return array.detach() if hasattr(array, "detach") else array


def attend(specification, query, key=None, value=None, *, heads=1, place=None, causal=False, lengths=None,
           parameters=None, seed=1, **inputs):
    """The output of an attention for each query, [B, I, d].

    specification  a line of text such as "gaussian(window=query) + relative"; methods() lists what it may name
    query          [B, I, d]; key and value [B, J, ...] are the query and the key unless they are given
    place          "encoder", "decoder" or "cross"; by default "decoder" if causal, "cross" with a key, else "encoder"
    lengths        [B], the number of keys of each sentence that are no padding
    parameters     arrays by name; parameters(...) lists them. Those that are not given are random, by the seed
    inputs         further inputs by name, such as mask=..., allowed=... and documents=...
    """
    place = place or ("decoder" if causal else "encoder" if key is None else "cross")
    arrays = {"query": query, "key": key, "value": value, "lengths": lengths, **inputs}
    arrays = {name: _without_gradient(array) for name, array in arrays.items() if array is not None}
    given = {name: _without_gradient(array) for name, array in (parameters or {}).items()}
    shape = _shape(query, key, value, inputs.get("step_input"), heads, place)
    call = _fovea.Call(specification, shape, arrays, given, causal, False, False, seed)
    return _like(query, call.output())


def parameters(specification, model_dim, *, heads=1, place="encoder", seed=1):
    """The initial parameters of an attention by name, as float32 arrays of NumPy."""
    shape = _fovea.Shape(model_dim=model_dim, heads=heads, layer=0, layers=1, place=place, dropout=0.0,
                         key_dim=model_dim, value_dim=model_dim, step_dim=0)
    return {name: numpy.from_dlpack(value) for name, value in _fovea.parameters(specification, shape, seed)}


def methods():
    """The names of all attention methods."""
    return _fovea.methods()


def describe(name):
    """What a method does: its summary, paper, formula, and options with their values, defaults and meanings."""
    return _fovea.describe(name)


def load_methods(library):
    """Adds the methods of a shared object of your own, which the script `method` compiles from a header."""
    _fovea.load_methods(str(library))
