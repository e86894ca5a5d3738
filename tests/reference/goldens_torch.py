#!/usr/bin/env python3
"""Writes the goldens: inputs and outputs, in f64, of what PyTorch defines too. The tests read the files, never PyTorch.

    python3 tests/reference/goldens_torch.py [tests/goldens]

One JSON file a topic, {"about": ..., "cases": [{"name": ..., values...}]}; a tensor is {"shape": [...], "values":
[...]} in row-major order. Weights are [in, out] as in y = x W + b. Inputs have three decimals, so they are the same
numbers everywhere; outputs have twelve digits (activations: all). Gradients are those of sum(output * cotangent).
"""
import json
import pathlib
import re
import sys

import mpmath
import torch
from torch import nn
from torch.nn import functional

torch.set_default_dtype(torch.float64)
generator = torch.Generator().manual_seed(20)


def draw(*shape: int, scale: float = 1.0, shift: float = 0.0) -> torch.Tensor:
    values = torch.randn(shape, generator=generator) * scale + shift
    return (torch.round(values * 1000) / 1000).requires_grad_()


def plain(value):
    if not isinstance(value, torch.Tensor):
        return value
    flat = value.detach().reshape(-1).tolist()
    return {"shape": list(value.shape), "values": [float(f"{x:.12g}") if isinstance(x, float) else x for x in flat]}


def case(name: str, **values) -> dict:
    return {"name": name, **{key: plain(value) for key, value in values.items()}}


def gradients(output: torch.Tensor, cotangent: torch.Tensor, **inputs: torch.Tensor) -> dict:
    found = torch.autograd.grad((output * cotangent).sum(), list(inputs.values()))
    return {f"{name}.gradient": gradient for name, gradient in zip(inputs, found)}


def layer_norm() -> tuple:
    cases = []
    for name, rows, dim, scale, shift in (("five rows", 5, 7, 1.0, 0.3), ("far from zero", 2, 8, 0.01, 50.0)):
        x, gain, bias = draw(rows, dim, scale=scale, shift=shift), draw(dim, shift=1.0), draw(dim)
        cotangent = draw(rows, dim)
        output = functional.layer_norm(x, (dim,), gain, bias, 1e-5)
        cases.append(case(name, epsilon=1e-5, x=x, gain=gain, bias=bias, output=output, cotangent=cotangent,
                          **gradients(output, cotangent, x=x, gain=gain, bias=bias)))
    return "layer normalisation over the last dimension, biased variance", cases


def load_lstm(lstm: nn.LSTM) -> dict:
    """Draws the weights of every layer and direction and returns them with our names: [in, 4 h], one bias."""
    named = {}
    for layer in range(lstm.num_layers):
        for suffix, direction in (("", "forward"), ("_reverse", "backward"))[: 1 + lstm.bidirectional]:
            def weight(kind: str) -> nn.Parameter:
                return getattr(lstm, f"{kind}_l{layer}{suffix}")
            for kind, ours in (("weight_ih", "input_weight"), ("weight_hh", "hidden_weight"), ("bias_ih", "bias")):
                value = draw(*weight(kind).shape, scale=0.5).detach()
                weight(kind).data.copy_(value)
                named[f"{layer}.{direction}.{ours}"] = (weight(kind), value.t())
            weight("bias_hh").data.zero_()
    return named


def lstm() -> tuple:
    cases = []
    for name, layers, both, lengths in (("one layer", 1, False, [5, 5, 5]), ("one layer, lengths", 1, False, [5, 3, 1]),
                                        ("two layers, both directions, lengths", 2, True, [4, 2, 1])):
        time, batch, size, hidden = max(lengths), len(lengths), 3, 2
        module = nn.LSTM(size, hidden, layers, batch_first=True, bidirectional=both)
        weights = load_lstm(module)
        states = layers * (2 if both else 1)
        x, first_hidden, first_cell = draw(batch, time, size), draw(states, batch, hidden), draw(states, batch, hidden)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        packed, (last_hidden, last_cell) = module(packed, (first_hidden, first_cell))
        output, _ = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True, total_length=time)
        cotangent, cell_cotangent = draw(*output.shape), draw(*last_cell.shape)
        scalar = (output * cotangent).sum() + (last_cell * cell_cotangent).sum()
        inputs = dict(x=x, first_hidden=first_hidden, first_cell=first_cell,
                      **{key: parameter for key, (parameter, _) in weights.items()})
        found = dict(zip(inputs, torch.autograd.grad(scalar, list(inputs.values()))))
        cases.append(case(
            name, lengths=lengths, x=x, first_hidden=first_hidden, first_cell=first_cell, output=output,
            last_hidden=last_hidden, last_cell=last_cell, cotangent=cotangent, cell_cotangent=cell_cotangent,
            **{key: value for key, (_, value) in weights.items()},
            **{f"{key}.gradient": gradient.t() if key in weights else gradient for key, gradient in found.items()}))
    return ("LSTM; x [B, T, in], gates in the order input, forget, cell, output along 4 h; states [layers * "
            "directions, B, h]; output is 0 past the length; gradients of sum(output * cotangent) + sum(last_cell * "
            "cell_cotangent)", cases)


def cross_entropy() -> tuple:
    cases = []
    targets = torch.tensor([3, 0, 6, 2, 5, 1])
    for name, smoothing, ignored, scale in (("plain", 0.0, -1, 1.0), ("smoothed", 0.1, -1, 1.0),
                                            ("smoothed, class 2 ignored", 0.1, 2, 1.0),
                                            ("large logits", 0.1, -1, 1000.0)):
        logits = draw(6, 7, scale=scale)
        log_probabilities = functional.log_softmax(logits, -1)
        real = (targets != ignored).double()
        gold = -log_probabilities.gather(1, targets[:, None])[:, 0]
        loss = (1 - smoothing) * gold + smoothing / 7 * -log_probabilities.sum(1)
        total = (loss * real).sum()
        theirs = functional.cross_entropy(logits, targets, ignore_index=ignored, label_smoothing=smoothing,
                                          reduction="sum")
        assert torch.allclose(total, theirs, rtol=1e-12)
        gradient, = torch.autograd.grad(total, logits)
        cases.append(case(name, smoothing=smoothing, ignored=ignored, logits=logits, targets=targets, sum=total.item(),
                          mean=(total / real.sum()).item(), nll_sum=(gold * real).sum().item(),
                          **{"logits.gradient": gradient}))
    return ("cross-entropy, (1 - e) nll + (e / V) sum over all V classes of -log p; the gradient is that of the sum; "
            "nll_sum is the loss without smoothing; mean is over the targets not ignored", cases)


def optimizer_steps(make, start: list, steps: list) -> list:
    parameters = [value.detach().clone().requires_grad_() for value in start]
    optimizer, seen = make(parameters), []
    for step in steps:
        for parameter, gradient in zip(parameters, step):
            parameter.grad = gradient.detach().clone()
        optimizer.step()
        seen.append([plain(parameter.clone()) for parameter in parameters])
    return seen


def optimizers() -> tuple:
    start = [draw(2, 3), draw(4)]
    steps = [[draw(2, 3, scale=scale), draw(4, scale=scale)] for scale in (1.0, 0.01, 30.0)]
    adam = dict(lr=0.01, betas=(0.9, 0.98), eps=1e-9)
    cases = []
    for name, make, options in (
            ("Adam", torch.optim.Adam, adam),
            ("Adam, decay in the gradient", torch.optim.Adam, dict(adam, weight_decay=0.1)),
            ("AdamW", torch.optim.AdamW, dict(adam, weight_decay=0.1)),
            ("SGD", torch.optim.SGD, dict(lr=0.1)),
            ("SGD, momentum and decay", torch.optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.05))):
        cases.append({"name": name, "options": options,
                      "after": optimizer_steps(lambda values: make(values, **options), start, steps)})
    clipped = [value.detach().clone().requires_grad_() for value in start]
    for parameter, gradient in zip(clipped, steps[2]):
        parameter.grad = gradient.detach().clone()
    norm = nn.utils.clip_grad_norm_(clipped, 1.0)
    cases.append({"name": "clipping to norm 1", "norm": norm.item(),
                  "gradients": [plain(parameter.grad) for parameter in clipped]})
    return ("three steps from `start` with the gradients of `steps`; `after` has the parameters after each step; "
            "clipping is that of the third step's gradients (PyTorch divides by norm + 1e-6)",
            cases, {"start": [plain(value) for value in start], "steps": [[plain(g) for g in step] for step in steps]})


def activations() -> tuple:
    """Not PyTorch's, whose tails are rounded: 40 digits by mpmath, which comes with PyTorch."""
    mpmath.mp.dps = 40
    one, two = mpmath.mpf(1), mpmath.mpf(2)

    def sigmoid(x):
        return one / (one + mpmath.exp(-x))

    def density(x):
        return mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)

    def bell(x):
        return 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x)

    formulas = {  # value, first and second derivative
        "gelu": (lambda x: x * mpmath.erfc(-x / mpmath.sqrt(two)) / 2,
                 lambda x: mpmath.erfc(-x / mpmath.sqrt(two)) / 2 + x * density(x), lambda x: (2 - x * x) * density(x)),
        "erf": (mpmath.erf, bell, lambda x: -2 * x * bell(x)),
        "sigmoid": (sigmoid, lambda x: sigmoid(x) * sigmoid(-x),
                    lambda x: sigmoid(x) * sigmoid(-x) * (sigmoid(-x) - sigmoid(x))),
        "log_sigmoid": (lambda x: -mpmath.log1p(mpmath.exp(-x)), lambda x: sigmoid(-x),
                        lambda x: -sigmoid(x) * sigmoid(-x)),
        "softplus": (lambda x: mpmath.log1p(mpmath.exp(x)), sigmoid, lambda x: sigmoid(x) * sigmoid(-x)),
        "tanh": (mpmath.tanh, lambda x: mpmath.sech(x) ** 2, lambda x: -2 * mpmath.tanh(x) * mpmath.sech(x) ** 2),
    }
    points = [-700.0, -40.0, -12.0, -6.0, -3.25, -1.75, -0.75, -0.125, -1e-8, 0.0, 1e-8, 0.3, 0.9, 1.4, 2.6, 5.5, 11.0,
              40.0, 700.0]
    cases = [{"name": name, "x": points, **{key: [float(formula(mpmath.mpf(x))) for x in points]
                                            for key, formula in zip(("value", "first", "second"), three)}}
             for name, three in formulas.items()]
    return "element by element: value, first and second derivative; gelu is x (1 + erf(x / sqrt 2)) / 2", cases


def encoder_layer() -> tuple:
    dim, heads, hidden, lengths = 6, 2, 5, [4, 2]
    weights = {name: draw(*shape, scale=0.5, shift=shift) for name, shape, shift in (
        ("query.weight", (dim, dim), 0), ("query.bias", (dim,), 0), ("key.weight", (dim, dim), 0),
        ("key.bias", (dim,), 0), ("value.weight", (dim, dim), 0), ("value.bias", (dim,), 0),
        ("output.weight", (dim, dim), 0), ("output.bias", (dim,), 0), ("inner.weight", (dim, hidden), 0),
        ("inner.bias", (hidden,), 0), ("outer.weight", (hidden, dim), 0), ("outer.bias", (dim,), 0),
        ("attention_norm.gain", (dim,), 1), ("attention_norm.bias", (dim,), 0),
        ("feed_forward_norm.gain", (dim,), 1), ("feed_forward_norm.bias", (dim,), 0))}
    x = draw(len(lengths), max(lengths), dim)
    real = torch.arange(max(lengths))[None, :] < torch.tensor(lengths)[:, None]
    cotangent = (draw(*x.shape) * real[:, :, None]).detach()
    cases = []
    for pre_norm in (True, False):
        layer = nn.TransformerEncoderLayer(dim, heads, hidden, dropout=0.0, batch_first=True, norm_first=pre_norm)
        attention = layer.self_attn
        w = {name: value.detach() for name, value in weights.items()}
        attention.in_proj_weight.data = torch.cat([w[f"{part}.weight"].T for part in ("query", "key", "value")])
        attention.in_proj_bias.data = torch.cat([w[f"{part}.bias"] for part in ("query", "key", "value")])
        for module, name in ((attention.out_proj, "output"), (layer.linear1, "inner"), (layer.linear2, "outer")):
            module.weight.data, module.bias.data = w[f"{name}.weight"].T.clone(), w[f"{name}.bias"]
        for module, name in ((layer.norm1, "attention_norm"), (layer.norm2, "feed_forward_norm")):
            module.weight.data, module.bias.data = w[f"{name}.gain"], w[f"{name}.bias"]
        output = layer(x, src_key_padding_mask=~real)
        cases.append(case("pre-norm" if pre_norm else "post-norm", output=output * real[:, :, None],
                          **gradients(output, cotangent, x=x)))
    return ("Transformer encoder layer, ReLU, no dropout; rows past the length are 0 in output and cotangent", cases,
            {"heads": heads, "lengths": lengths, "x": plain(x), "cotangent": plain(cotangent),
             "weights": {name: plain(value) for name, value in weights.items()}})


def main() -> None:
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "goldens")
    folder.mkdir(exist_ok=True)
    for topic in (layer_norm, lstm, cross_entropy, optimizers, activations, encoder_layer):
        about, cases, *shared = topic()
        document = {"about": about, **(shared[0] if shared else {}), "cases": cases}
        text = json.dumps(document, indent=1)
        # one line a tensor: short enough to read, and a change shows as one line

        text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda found: "[" + " ".join(found[1].split()) + "]", text)
        text = re.sub(r"\{\s+(\"shape\": \[[^\]]*\]),\s+(\"values\": \[[^\]]*\])\s+\}", r"{\1, \2}", text)
        (folder / f"{topic.__name__}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
