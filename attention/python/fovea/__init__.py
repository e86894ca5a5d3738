"""fovea's attention methods on NumPy arrays and PyTorch tensors, forward and backward, on the CPU.

Inputs and parameters pass through DLPack without a copy. float32, float64 and bfloat16 are possible; bfloat16 is
computed in float32. A wrong argument raises a ValueError that says what would be right.
"""
import difflib
import numbers
import operator
import re
import sys
from collections.abc import Mapping

import numpy

from . import _fovea

__all__ = ["attend", "methods", "describe", "load_methods", "parameters", "pointwise"]


def _whole(name, value, least, most):
    """`value` as an int; name and range are for the message."""
    try:
        if isinstance(value, bool):  # True is 1 to operator.index
            raise TypeError
        found = operator.index(value)
    except TypeError:
        raise ValueError(f"{name}: found {value!r}; expected a whole number") from None
    if not least <= found <= most:
        raise ValueError(f"{name}: found {found}; expected a whole number from {least} to {most}")
    return found


def _shape(model_dim, heads, place, dropout=0.0, layer=0, layers=1, key_dim=None, value_dim=None, step_dim=0,
           head_dim=None):
    """The arguments of _fovea.Shape, which itself can be neither copied nor pickled."""
    largest = 2**31 - 1
    if not isinstance(place, str):
        raise ValueError(f"place: found {place!r}; expected 'encoder', 'decoder' or 'cross'")
    if not isinstance(dropout, numbers.Real) or not 0 <= dropout < 1:
        raise ValueError(f"dropout: found {dropout!r}; expected a number from 0 to below 1")
    model_dim = _whole("model_dim", model_dim, 1, largest)
    layers = _whole("layers", layers, 1, largest)
    return {"model_dim": model_dim, "heads": _whole("heads", heads, 1, largest),
            "head_dim": 0 if head_dim is None else _whole("head_dim", head_dim, 1, largest),
            "layer": _whole("layer", layer, 0, layers - 1), "layers": layers, "place": place, "dropout": float(dropout),
            "key_dim": model_dim if key_dim is None else _whole("key_dim", key_dim, 1, largest),
            "value_dim": model_dim if value_dim is None else _whole("value_dim", value_dim, 1, largest),
            "step_dim": _whole("step_dim", step_dim, 0, largest)}


def _specification(text):
    if not isinstance(text, str):
        raise ValueError(f"specification: found {text!r}; expected a line of text such as 'gaussian + relative'")
    return text


def _check(specification):
    """The text, once it is known to be a specification."""
    _fovea.check(_specification(specification))
    return specification


def _array(name, array):
    """The argument as an array on the CPU that DLPack can pass."""
    if name == "lengths" and isinstance(array, (list, tuple)):
        return numpy.array([_whole("lengths", length, 0, 2**63 - 1) for length in array], dtype=numpy.int64)
    if not hasattr(array, "__dlpack__"):
        raise ValueError(f"{name}: found {type(array).__name__}; expected an array of NumPy or a tensor of PyTorch")
    if isinstance(array, numpy.ma.MaskedArray):
        raise ValueError(f"{name}: found a masked array; expected one without a mask, such as its filled(...)")
    if isinstance(array, numpy.ndarray) and (array.dtype.kind not in "fiubc" or array.dtype.char in "gG"
                                             or not array.dtype.isnative):
        raise ValueError(f"{name}: found elements of type {array.dtype.str}; expected numbers of at most 64 bits in "
                         "the machine's byte order")
    if str(getattr(array, "layout", "torch.strided")) != "torch.strided":
        raise ValueError(f"{name}: found a tensor of layout {array.layout}; expected a dense one, of torch.strided")
    device = getattr(array, "device", "cpu")
    if str(device) != "cpu":
        raise ValueError(f"{name}: found an array on {device}; expected one on the CPU")
    # DLPack passes no tensor that requires a gradient, and not that a tensor stands for the negative of its memory.
    return array.detach().resolve_neg() if hasattr(array, "resolve_neg") else array


def _dict(name, given):
    """The argument, which has names of text; an empty dict for None."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        found = "other names" if isinstance(given, Mapping) else type(given).__name__
        raise ValueError(f"{name}: found {found}; expected a dict of arrays by name, which is text")
    return given


def _arrays(given):
    return {name: _array(name, array) for name, array in given.items() if array is not None}


def _call(specification, shape, inputs, parameters, causal, *, seed, train=False, gradients=False, traced=False,
          complete=False):
    if not isinstance(causal, (bool, numpy.bool_)):
        raise ValueError(f"causal: found {causal!r}; expected True or False")
    for name in ("query", "key", "value"):
        if name in inputs and inputs[name].ndim != 3:
            raise ValueError(f"{name}: found {inputs[name].ndim} dimensions; expected 3, [sentences, tokens, width]")
    return _fovea.Call(_specification(specification), _fovea.Shape(**shape), inputs, parameters, bool(causal), train,
                       gradients, traced, complete, _whole("seed", seed, 0, 2**64 - 1))


def _like(array, result):
    """The result as an array of the library that `array` belongs to."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return torch.from_dlpack(result)
    return numpy.from_dlpack(result)


def attend(specification, query, key=None, value=None, *, heads=1, place=None, causal=False, lengths=None,
           parameters=None, seed=1, **inputs):
    """The output of an attention for each query, [B, I, d].

    specification  a line of text such as "gaussian(window=query) + relative"; methods() lists what it may name
    query          [B, I, d]; key and value [B, J, ...] are the query and the key unless they are given
    place          "encoder", "decoder" or "cross"; by default "decoder" if causal, "cross" with a key, else "encoder"
    lengths        [B], a list or an array: the number of keys of each sentence that are no padding
    parameters     arrays by name; parameters(...) lists them. Those that are not given are random, by the seed
    inputs         further inputs by name, such as mask=..., allowed=... and documents=...
    """
    if query is None:
        raise ValueError("query: found None; expected an array [B, I, d]")
    place = place or ("decoder" if causal else "encoder" if key is None else "cross")
    arrays = _arrays({"query": query, "key": key, "value": value, "lengths": lengths, **inputs})
    def width(name, default):
        return arrays[name].shape[-1] if name in arrays and arrays[name].ndim else default
    model_dim = width("query", 1)
    key_dim = width("key", model_dim)
    shape = _shape(model_dim, heads, place, key_dim=key_dim, value_dim=width("value", key_dim),
                   step_dim=width("step_input", 0))
    call = _call(specification, shape, arrays, _arrays(_dict("parameters", parameters)), causal, seed=seed)
    return _like(query, call.output())


def parameters(specification, model_dim, *, heads=1, place="encoder", seed=1):
    """The initial parameters of an attention with projections by name, as float32 arrays of NumPy."""
    return {name: numpy.from_dlpack(value)
            for name, value in _parameters(specification, _shape(model_dim, heads, place), seed)}


def _parameters(specification, shape, seed):
    return _fovea.parameters(_specification(specification), _fovea.Shape(**shape), _whole("seed", seed, 0, 2**64 - 1))


def pointwise(formula, **captures):
    """The specification of an attention whose formula is text: pointwise("z - exp(slope) * abs(j - i)", slope="head").

    A formula of z changes the logit z of each query and key, and a formula of w, which is w times a factor, the weight
    w behind the softmax; the weights of a query are not made to add up to 1 again. i and j are the positions of query
    and key in tokens. The syntax is Python's: + - * /, ** with a whole number from 1 to 16, comparisons with and, or
    and not, where(condition, a, b), minimum(a, b), maximum(a, b), and abs, exp, log, log1p, sqrt, floor, tanh, sigmoid,
    softplus, erf, sin and cos of one number. A formula has at most 4096 characters and 8 captures.

    captures are the further names that the formula reads. Each is a parameter of the attention, "pointwise.slope", of
    the shape that a module has by default, 0 at the start, or one that is given in a call with more numbers:

    kind             by default           at most
    "head"           [H]                  [H]
    "query"          [H, 1]               [B, H, I]
    "key"            [H, 1]               [B, H, J]
    "pair"           [H, 1, 1]            [B, H, I, J]
    "offset:CLIP"    [H, 1, 2 CLIP + 1]   [B, H, I, 2 CLIP + 1]: the pair reads entry clip(j - i, -CLIP, CLIP) + CLIP

    Any dimension but that of a table may be 1 instead. The result is text, which may be part of a sum:
    "relative + " + pointwise(...). A mistake is a ValueError.
    """
    if not isinstance(formula, str):
        raise ValueError(f"formula: found {formula!r}; expected text such as 'z - exp(slope) * abs(j - i)'")
    for name, kind in captures.items():
        if name in ("heads", "layers"):
            raise ValueError(f"{name}: a method has an option of this name; give the capture another one")
        if not isinstance(kind, str) or not re.fullmatch(r"head|query|key|pair|offset:\d+", kind):
            raise ValueError(f"{name}: found {kind!r}; expected 'head', 'query', 'key', 'pair' or 'offset:CLIP'")
    if '"' in formula:
        raise ValueError("formula: found a quotation mark; a formula has numbers, names and operators only")
    specification = f'pointwise({", ".join([chr(34) + formula + chr(34), *map("=".join, captures.items())])})'
    _fovea.check(specification)
    return specification


def methods():
    """The names of all attention methods."""
    return _fovea.methods()


def describe(name):
    """What a method does: its summary, paper, formula, and options with their values, defaults and meanings."""
    if name not in methods():
        near = difflib.get_close_matches(str(name), methods(), 1)
        raise ValueError(f"there is no method {name!r}; " +
                         (f"did you mean {near[0]!r}?" if near else "methods() has the names of all"))
    return _fovea.describe(str(name))


def load_methods(library):
    """Adds the methods of a shared object of your own, which the script `method` compiles from a header."""
    _fovea.load_methods(str(library))
