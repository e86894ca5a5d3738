"""Attention methods for PyTorch, as modules and as a function: forward and backward passes on the CPU are fovea's."""
import difflib
import types

import torch

from . import _array, _arrays, _call, _check, _dict, _parameters, _shape, _whole, pointwise

__all__ = ["attention", "initial_parameters", "pointwise", "Attention", "MultiheadAttention"]


class _Attend(torch.autograd.Function):
    """One call. `inputs` and `parameters` are the names of the tensors, in this order."""

    @staticmethod
    def forward(ctx, options, inputs, parameters, trace, *tensors):
        whole_numbers = options["whole_numbers"]
        call = _call(options["specification"], options["shape"],
                     _arrays({**dict(zip(inputs, tensors)), **whole_numbers}),
                     _arrays(dict(zip(parameters, tensors[len(inputs):]))), options["causal"], train=options["train"],
                     gradients=any(ctx.needs_input_grad), traced=trace is not None, complete=True, seed=options["seed"])
        ctx.call, ctx.names = call, (*inputs, *parameters)
        # An update in place of one of these before the backward pass is then an error.
        ctx.save_for_backward(*tensors, *(x for x in whole_numbers.values() if isinstance(x, torch.Tensor)))
        if trace is not None:
            if (weights := call.weights()) is not None:
                trace["weights"] = torch.from_dlpack(weights)
            trace.update({name: torch.from_dlpack(value) for name, value in call.quantities().items()})
        return torch.from_dlpack(call.output())

    @staticmethod
    def backward(ctx, cotangent):
        names = [name if needed else None for name, needed in zip(ctx.names, ctx.needs_input_grad[4:])]
        tensors = ctx.saved_tensors[:len(names)]
        return (None, None, None, None, *_Gradients.apply(ctx.call, names, cotangent, *tensors))


class _Gradients(torch.autograd.Function):
    """The gradients of a call, as functions of the output's gradient and of the tensors. A name is None where no
    gradient is needed.
    """

    @staticmethod
    def forward(ctx, call, names, cotangent, *tensors):
        ctx.call, ctx.names = call, names
        ctx.save_for_backward(cotangent, *tensors)
        found = call.gradients(_dense(cotangent))
        return tuple(torch.from_dlpack(found[name]) if name is not None else None for name in names)

    @staticmethod
    def backward(ctx, *weights):
        needed = [name if is_needed else None
                  for name, is_needed in zip(["", *ctx.names], ctx.needs_input_grad[2:])]
        return (None, None, *_SecondGradients.apply(ctx.call, ctx.names, needed, *weights, *ctx.saved_tensors))


class _SecondGradients(torch.autograd.Function):
    """The gradients of gradients: those of `needed`, "" is the output's gradient. They have no gradients again."""

    @staticmethod
    def forward(ctx, call, names, needed, *tensors):
        weights, cotangent = tensors[:len(names)], tensors[len(names)]
        given = {name: _dense(weight) for name, weight in zip(names, weights) if name is not None}
        found = call.second_gradients(_dense(cotangent), given)
        return tuple(torch.from_dlpack(found[name]) if name is not None else None for name in needed)

    @staticmethod
    def backward(ctx, *weights):
        raise RuntimeError("an attention of fovea is differentiated twice, not three times")


def _dense(gradient):
    return _array("gradient", gradient).contiguous()


_FURTHER_INPUTS = ("mask", "left_pointer", "right_pointer", "step_input", "previous_focus", "documents", "grid")
_NAMES_OF_TORCH = {"attn_mask": "allowed", "key_padding_mask": "lengths", "dropout_p": "dropout", "is_causal": "causal"}


def _seed():
    return int(torch.randint(2**62, (), device="cpu"))


def _apply(specification, shape, inputs, parameters, *, causal, train, trace=None, further={}, **whole_numbers):
    """The output of a call on tensors by name, of which `further` has those that a user has named."""
    for name in further:
        if name not in _FURTHER_INPUTS:
            known = ("lengths", "allowed", "causal", "dropout", "place", "parameters", "trace", *_FURTHER_INPUTS)
            near = [_NAMES_OF_TORCH[name]] if name in _NAMES_OF_TORCH else difflib.get_close_matches(name, known, 1)
            raise ValueError(f"there is no argument '{name}'; " + (f"did you mean '{near[0]}'?" if near else
                             f"further inputs are {', '.join(_FURTHER_INPUTS)}"))
    inputs = {name: x for name, x in {**inputs, **further}.items() if x is not None}
    for name, x in (*inputs.items(), *parameters.items()):
        if not isinstance(x, torch.Tensor):
            raise ValueError(f"{name}: found {type(x).__name__}; expected a tensor of PyTorch")
    if trace is not None:
        _dict("trace", trace)
    seed = _seed() if train and shape["dropout"] > 0 else 0
    options = {"specification": specification, "shape": shape, "causal": causal, "train": train, "seed": seed,
               "whole_numbers": {name: x for name, x in whole_numbers.items() if x is not None}}
    return _Attend.apply(options, tuple(inputs), tuple(parameters), trace, *inputs.values(), *parameters.values())


def attention(query, key, value, specification="global", *, parameters=None, lengths=None, causal=False, allowed=None,
              dropout=0.0, place=None, trace=None, **inputs):
    """The output [B, H, I, D_v] of an attention without projections, for queries [B, H, I, D], keys [B, H, J, D] and
    values [B, H, J, D_v].

    specification  a sum of methods, such as "gaussian + relative" or pointwise(...)
    parameters     tensors by name, all that the methods have, of the query's type; initial_parameters() has them with
                   their initial values. A capture of pointwise(...) may have a number for each sentence, query and key
    lengths        [B], the numbers of keys that are no padding
    allowed        bool [B or 1, H or 1, I or 1, J], true where a query may see a key. A query that sees none has the
                   output 0. Methods such as gaussian scale by lengths, never by allowed
    dropout        the probability with which a weight is dropped, by torch's seed
    causal         whether query i sees only the keys up to i + J - I. The positions of the queries then begin at J - I,
                   also of a single one that is decoded with the keys of all tokens before it; without causal, at 0
    place          "encoder", "decoder" or "cross"; by default "decoder" if causal, else "encoder" for as many keys as
                   queries, else "cross"
    trace          a dict, which gets the weights and the quantities of the methods
    inputs         what some methods read (fovea.describe has their formulas): mask [B or 1, H or 1, I or 1, J],
                   left_pointer, right_pointer, step_input, previous_focus, documents [B, J] and grid

    Tensors whose heads lie side by side in memory, [B, T, H, D] as a projection leaves them, are read where they are;
    others are copied to this order first. Gradients flow to query, key, value, parameters and further inputs.
    """
    states = {"query": query, "key": key, "value": value}
    for name, x in states.items():
        if not isinstance(x, torch.Tensor) or x.ndim != 4:
            found = f"{x.ndim} dimensions" if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"{name}: found {found}; expected 4 dimensions, [sentences, heads, tokens, width]")
    heads = query.shape[1]
    for name in ("key", "value"):
        expected = [query.shape[0], heads, key.shape[2]]
        if list(states[name].shape[:3]) != expected:
            raise ValueError(f"{name}: found {list(states[name].shape)}; expected [{', '.join(map(str, expected))}, "
                             "width] (keys that heads share are repeated: repeat_interleave)")
    _check(specification)
    place = place or ("decoder" if causal else "encoder" if key.shape[2] == query.shape[2] else "cross")
    merged = {name: x.transpose(1, 2).flatten(2) for name, x in states.items()}  # [B, T, H D]
    shape = _shape(merged["query"].shape[2], heads, place, dropout, key_dim=merged["key"].shape[2],
                   value_dim=merged["value"].shape[2])
    out = _apply(f"classic({specification}, heads={heads})", shape, merged,
                 _dict("parameters", parameters), causal=causal, train=dropout > 0,
                 trace=trace, further=inputs, lengths=lengths, allowed=allowed)
    return out.unflatten(2, (heads, -1)).transpose(1, 2)


def initial_parameters(specification, *, heads, head_dim, value_dim=None, place="encoder"):
    """The parameters that attention() needs in this place for heads of this width, by name, with their initial values.
    value_dim is the width of a value, that of the other heads without it.
    """
    heads, head_dim = _whole("heads", heads, 1, 2**15), _whole("head_dim", head_dim, 1, 2**15)
    value_dim = head_dim if value_dim is None else _whole("value_dim", value_dim, 1, 2**15)
    found = _parameters(f"classic({_check(specification)}, heads={heads})",
                        _shape(heads * head_dim, heads, place, value_dim=heads * value_dim), _seed())
    return {name: torch.from_dlpack(value).to(torch.get_default_dtype(), copy=True) for name, value in found}


class Attention(torch.nn.Module):
    """An attention of a specification, such as "relative + gaussian(window=query)".

    The parameters have fovea's names, so that state_dict() has the names of fovea's .safetensors; a weight is
    [in, out], the transpose of that of torch.nn.Linear. place is "encoder" for attention to the sentence's own tokens,
    "decoder" where a query sees no later ones, or "cross" for keys of another sequence. dropout is drawn by torch's
    seed. head_dim is the width of a head, model_dim / heads without it. layer, counted from 0, and layers are for
    methods that differ between layers. key_dim, value_dim and step_dim are the widths of key, value and step_input;
    without them, key has the width model_dim and value that of key.
    """

    def __init__(self, specification, *, model_dim, heads, place="encoder", dropout=0.0, layer=0, layers=1,
                 key_dim=None, value_dim=None, step_dim=0, head_dim=None):
        super().__init__()
        self.specification, self.place = specification, place
        self._shape = _shape(model_dim, heads, place, dropout, layer, layers, key_dim,
                             key_dim if value_dim is None else value_dim, step_dim, head_dim)
        self._names = []
        for name, value in _parameters(specification, self._shape, _seed()):
            self._names.append(name)
            parameter = torch.from_dlpack(value).to(torch.get_default_dtype(), copy=True)
            self._owner(name, create=True).register_parameter(name.rpartition(".")[2], torch.nn.Parameter(parameter))

    def _owner(self, name, create=False):
        """The module that has the parameter: "query.weight" is `weight` of the module `query`."""
        module = self
        for part in name.split(".")[:-1]:
            if create and part not in module._modules:
                module.add_module(part, torch.nn.Module())
            module = module._modules[part]
        return module

    def forward(self, query, key=None, value=None, *, lengths=None, allowed=None, causal=False, parameters=None,
                trace=None, **inputs):
        """The output [B, I, d] for queries [B, I, d]; key and value [B, J, ...] are the query and the key by default.

        lengths, allowed, causal, trace and further inputs are those of attention(). parameters, a dict, has tensors
        that stand for the module's parameters of these names in this call, such as a capture of pointwise(...) that
        has a number for each query.
        """
        are_tensors = isinstance(query, torch.Tensor) and isinstance(key, torch.Tensor)
        if self.place == "encoder" and are_tensors and query.ndim == key.ndim == 3 and key.shape[1] != query.shape[1]:
            raise ValueError(f"key: found {key.shape[1]} tokens for {query.shape[1]} queries; expected as many in "
                             "place='encoder'; place='cross' is for keys of another sequence")
        own = {name: getattr(self._owner(name), name.rpartition(".")[2]) for name in self._names}
        return _apply(self.specification, self._shape, {"query": query, "key": key, "value": value},
                      {**own, **_dict("parameters", parameters)}, causal=self.place == "decoder" or causal,
                      train=self.training, trace=trace, further=inputs, lengths=lengths, allowed=allowed)

    def extra_repr(self):
        shape = self._shape
        return (f"{self.specification!r}, model_dim={shape['model_dim']}, heads={shape['heads']}, "
                f"place={self.place!r}, dropout={shape['dropout']}")


class _NotOfTorch:
    """Stands for a weight that torch's encoders look at in search of a faster path, and makes them go without one."""

    @classmethod
    def __torch_function__(cls, *_, **__):
        return NotImplemented


class MultiheadAttention(Attention):
    """Stands for torch.nn.MultiheadAttention with batch_first=True, also as `self_attn` of TransformerEncoderLayer.

    The masks have PyTorch's meaning: true, or -inf, hides a key. A mask with other numbers is a ValueError: a bias is a
    method of the specification. A padding mask that hides only the ends of sentences also gives methods their lengths,
    as `lengths` does. With a causal attn_mask, query i has the length i + 1, as in a decoder.
    """

    batch_first = True
    # Encoders and their layers then call forward(), and read no weights of torch's attention.
    _qkv_same_embed_dim = False
    in_proj_weight, in_proj_bias = _NotOfTorch(), None
    out_proj = types.SimpleNamespace(weight=None, bias=None)

    def __init__(self, specification, embed_dim, num_heads, dropout=0.0, place="encoder"):
        super().__init__(specification, model_dim=embed_dim, heads=num_heads, place=place, dropout=dropout)
        self.num_heads = num_heads

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):
        """The output [B, I, d], and the weights, [B, I, J] or one matrix for each head, or None.

        Gradients do not flow through the weights. is_causal is a hint, as in torch: the mask says what is hidden, and
        is_causal without attn_mask is a ValueError, except with place="decoder", which is causal itself.
        """
        if is_causal and attn_mask is None and self.place != "decoder":
            raise ValueError("is_causal: found True without attn_mask; expected attn_mask, or place='decoder'")
        lengths = allowed = None
        if key_padding_mask is not None:
            seen = _seen("key_padding_mask", key_padding_mask, key.shape[:2])  # [B, J]
            lengths = seen.sum(-1)
            is_at_end = seen == (torch.arange(seen.shape[-1]) < lengths[:, None])
            if not is_at_end.all():  # a sentence with other padding has the length of all keys, and hides some
                lengths, allowed = torch.where(is_at_end.all(-1), lengths, seen.shape[-1]), seen[:, None, None]
        causal = False
        if attn_mask is not None:
            matrix = (query.shape[1], key.shape[1])
            pairs = _seen("attn_mask", attn_mask, matrix, (query.shape[0] * self.num_heads, *matrix))
            causal = (self.place == "encoder" and matrix[0] == matrix[1]
                      and bool((pairs == torch.ones(matrix).tril().bool()).all()))
            if not causal:
                pairs = pairs if pairs.ndim == 2 else pairs.unflatten(0, (-1, self.num_heads))
                allowed = pairs[(None,) * (4 - pairs.ndim)] & (True if allowed is None else allowed)
        trace = {} if need_weights else None
        same = query is key and key is value
        out = super().forward(query, None if same else key, None if same else value, lengths=lengths,
                              allowed=None if allowed is None else allowed.contiguous(), causal=causal, trace=trace)
        if not need_weights:
            return out, None
        if "weights" not in trace:
            raise ValueError(f"need_weights: found True, but {self.specification!r} has no weights; expected False")
        return out, trace["weights"].mean(1) if average_attn_weights else trace["weights"]


def _seen(name, mask, *shapes):
    """Where a mask of PyTorch, of one of these shapes, hides nothing."""
    if not isinstance(mask, torch.Tensor):
        raise ValueError(f"{name}: found {type(mask).__name__}; expected a tensor of PyTorch")
    if mask.shape not in shapes:
        raise ValueError(f"{name}: found {list(mask.shape)}; expected {' or '.join(str(list(s)) for s in shapes)}")
    if mask.dtype == torch.bool:
        return ~mask
    if not ((mask == 0) | (mask == float("-inf"))).all():
        raise ValueError(f"{name}: expected truth values, or 0 and -inf; a bias is a method of the specification")
    return mask == 0
