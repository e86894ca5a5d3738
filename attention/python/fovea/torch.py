"""Attention methods as modules of PyTorch: forward and backward passes on the CPU are fovea's."""
import torch

from . import _arrays, _call, _parameters, _shape

__all__ = ["Attention", "MultiheadAttention"]


class _Attend(torch.autograd.Function):
    """One call. The names are those of the tensors: inputs, then parameters."""

    @staticmethod
    def forward(ctx, module, options, names, parameter_names, trace, *tensors):
        inputs = _arrays(dict(zip(names, tensors)))
        parameters = _arrays(dict(zip(parameter_names, tensors[len(names):])))
        whole_numbers = _arrays(options["whole_numbers"])
        call = _call(module.specification, module._shape, {**inputs, **whole_numbers}, parameters, options["causal"],
                     train=module.training, gradients=any(ctx.needs_input_grad), traced=trace is not None,
                     seed=options["seed"])
        ctx.call, ctx.names = call, list(names) + list(parameter_names)
        # An update in place of one of these before the backward pass is then an error.
        ctx.save_for_backward(*tensors, *(x for x in whole_numbers.values() if isinstance(x, torch.Tensor)))
        if trace is not None:
            if (weights := call.weights()) is not None:
                trace["weights"] = torch.from_dlpack(weights)
            trace.update({name: torch.from_dlpack(value) for name, value in call.quantities().items()})
        return torch.from_dlpack(call.output())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, cotangent):
        ctx.saved_tensors
        found = ctx.call.gradients(cotangent.contiguous())
        gradients = [torch.from_dlpack(found[name]) if needed else None
                     for name, needed in zip(ctx.names, ctx.needs_input_grad[5:])]
        return (None, None, None, None, None, *gradients)


class Attention(torch.nn.Module):
    """An attention of a specification, such as "relative + gaussian(window=query)".

    The parameters have fovea's names, so that state_dict() has the names of fovea's .safetensors. place is "encoder",
    "decoder" or "cross"; a decoder's queries see no later keys. dropout is drawn by torch's seed.
    """

    def __init__(self, specification, *, model_dim, heads, place="encoder", dropout=0.0, layer=0, layers=1,
                 key_dim=None, value_dim=None, step_dim=0):
        super().__init__()
        self.specification, self.place = specification, place
        self._shape = _shape(model_dim, heads, place, dropout, layer, layers, key_dim, value_dim, step_dim)
        self._names = []
        for name, value in _parameters(specification, self._shape, self._seed()):
            self._names.append(name)
            self._owner(name, create=True).register_parameter(
                name.rpartition(".")[2], torch.nn.Parameter(torch.from_dlpack(value).clone()))

    def _owner(self, name, create=False):
        """The module that has the parameter: "query.weight" is `weight` of the module `query`."""
        module = self
        for part in name.split(".")[:-1]:
            if create and part not in module._modules:
                module.add_module(part, torch.nn.Module())
            module = module._modules[part]
        return module

    @staticmethod
    def _seed():
        return int(torch.randint(2**62, ()))

    def forward(self, query, key=None, value=None, *, lengths=None, allowed=None, documents=None, trace=None, **inputs):
        """The output [B, I, d] for queries [B, I, d]; key and value [B, J, ...] are the query and the key by default.

        lengths [B] are the numbers of keys that are no padding. allowed, bool [B or 1, H or 1, I or 1, J], is false
        where a query must not see a key. trace, a dict, gets the weights and the quantities of the methods.
        """
        arrays = {"query": query, "key": key, "value": value, **inputs}
        arrays = {name: x for name, x in arrays.items() if x is not None}
        for name, x in arrays.items():
            if not isinstance(x, torch.Tensor):
                raise ValueError(f"{name}: found {type(x).__name__}; expected a tensor of PyTorch")
        whole_numbers = {"lengths": lengths, "allowed": allowed, "documents": documents}
        options = {"causal": self.place == "decoder", "seed": self._seed() if self.training else 0,
                   "whole_numbers": {name: x for name, x in whole_numbers.items() if x is not None}}
        parameters = [self._owner(name)._parameters[name.rpartition(".")[2]] for name in self._names]
        return _Attend.apply(self, options, tuple(arrays), tuple(self._names), trace, *arrays.values(), *parameters)

    def extra_repr(self):
        return repr(self.specification)


class MultiheadAttention(Attention):
    """Stands for torch.nn.MultiheadAttention with batch_first=True, also as `self_attn` of TransformerEncoderLayer.

    The masks have PyTorch's meaning: true, or -inf, hides a key. A mask with other numbers is a ValueError: a bias is a
    method of the specification.
    """

    batch_first = True
    # Encoders and their layers then call forward(), and read no weights of torch's attention.
    _qkv_same_embed_dim = False
    in_proj_bias = None

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
            seen = _seen("key_padding_mask", key_padding_mask)  # [B, J]
            lengths = seen.sum(-1)
            if not torch.equal(seen, torch.arange(seen.shape[-1]) < lengths[:, None]):
                lengths, allowed = None, seen[:, None, None]  # padding that is not at the end
        if attn_mask is not None:
            pairs = _seen("attn_mask", attn_mask)  # [I, J] or [B H, I, J]
            pairs = pairs if pairs.ndim == 2 else pairs.unflatten(0, (-1, self.num_heads))
            allowed = pairs[(None,) * (4 - pairs.ndim)] & (True if allowed is None else allowed)
        trace = {} if need_weights else None
        same = query is key and key is value
        out = super().forward(query, None if same else key, None if same else value, lengths=lengths,
                              allowed=None if allowed is None else allowed.contiguous(), trace=trace)
        if not need_weights:
            return out, None
        if "weights" not in trace:
            raise ValueError(f"need_weights: found True, but {self.specification!r} has no weights; expected False")
        return out, trace["weights"].mean(1) if average_attn_weights else trace["weights"]


def _seen(name, mask):
    """Where a mask of PyTorch hides nothing."""
    if mask.dtype == torch.bool:
        return ~mask
    if not ((mask == 0) | (mask == float("-inf"))).all():
        raise ValueError(f"{name}: expected truth values, or 0 and -inf; a bias is a method of the specification")
    return mask == 0
