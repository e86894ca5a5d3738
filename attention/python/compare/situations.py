"""PyTorch and fovea in the same unpleasant situations: prints the table of SITUATIONS.md.

    python attention/python/compare/situations.py

pkg-config must find fovea's library, for which situations.cpp is compiled with CXX.
"""
import os
import pathlib
import shlex
import subprocess
import tempfile

import torch

from fovea.torch import MultiheadAttention


def text_of(x):
    return ", ".join(f"{value:.4g}" for value in x.detach().double().flatten().tolist())


def attention_of(kind):
    torch.manual_seed(1)
    theirs = torch.nn.MultiheadAttention(4, 2, batch_first=True)
    if kind == "torch":
        return theirs
    ours = MultiheadAttention("global", 4, 2)
    with torch.no_grad():
        for k, name in enumerate(("query", "key", "value")):
            getattr(ours, name).weight.copy_(theirs.in_proj_weight[4 * k:4 * k + 4].T)
            getattr(ours, name).bias.copy_(theirs.in_proj_bias[4 * k:4 * k + 4])
        ours.output.weight.copy_(theirs.out_proj.weight.T)
        ours.output.bias.copy_(theirs.out_proj.bias)
    return ours


def row_that_sees_nothing(kind):
    x = torch.linspace(-1, 1, 12).view(1, 3, 4).requires_grad_()
    attention = attention_of(kind)
    hidden = torch.tensor([[False, False, False], [True, True, True], [False, True, False]])
    out, weights = attention(x, x, x, attn_mask=hidden, need_weights=True)
    out.square().sum().backward()
    broken = [name for name, value in attention.named_parameters() if not value.grad.isfinite().all()]
    return f"its weights {text_of(weights[0, 1])}; parameters with gradients that are NaN: {len(broken)}"


def nan_in_a_hidden_key(kind):
    x = torch.linspace(-1, 1, 12).view(1, 3, 4)
    x[0, 2] = float("nan")
    attention = attention_of(kind)
    out = attention(x[:, :2], x, x, key_padding_mask=torch.tensor([[False, False, True]]), need_weights=False)[0]
    out.square().sum().backward()
    broken = [name for name, value in attention.named_parameters() if not value.grad.isfinite().all()]
    return f"output of the first query {text_of(out[0, 0])}; parameters with gradients that are NaN: {len(broken)}"


def where():
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    torch.where(x > 0, x.sqrt(), torch.zeros(())).sum().backward()
    return "gradient " + text_of(x.grad)


def ignored():
    logits = torch.tensor([[0.3, -0.7], [1.1, 0.2]], requires_grad=True)
    return "loss " + text_of(torch.nn.functional.cross_entropy(logits, torch.tensor([-100, -100])))


def clip():
    rows = [torch.ones(2, requires_grad=True), torch.ones(1, requires_grad=True)]
    rows[0].grad, rows[1].grad = torch.tensor([3e38, 2e38]), torch.tensor([1e38])
    torch.nn.utils.clip_grad_norm_(rows, 1.0)
    return f"gradients {text_of(rows[0].grad)}, {text_of(rows[1].grad)}"


def adam():
    weight = torch.ones(1, dtype=torch.bfloat16, requires_grad=True)
    optimizer = torch.optim.Adam([weight], 1e-3)
    for _ in range(100):
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()
    return "the weight is " + text_of(weight)


def norm():
    return "result " + text_of(torch.nn.LayerNorm(4)(torch.tensor([1e30, -1e30, 2e30, 0.0])))


def of_library():
    """What situations.cpp prints, by situation."""
    flags = shlex.split(subprocess.run(["pkg-config", "--cflags", "--libs", "fovea"], check=True, capture_output=True,
                                       text=True).stdout)
    source = pathlib.Path(__file__).with_name("situations.cpp")
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "situations"
        places = [f"-Wl,-rpath,{flag[2:]}" for flag in flags if flag.startswith("-L")]
        subprocess.run([os.environ.get("CXX", "c++"), source, *flags, *places, "-o", program], check=True)
        lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    return dict(line.split("\t") for line in lines)


SITUATIONS = {
    "where": ("`where(x > 0, sqrt(x), 0)` at x = 0 and 4; the gradient is 0 and 0.25", where),
    "ignored": ("mean cross-entropy where all targets are ignored", ignored),
    "clip": ("gradients (3e38, 2e38) and (1e38), clipped to a norm of 1; that is (0.802, 0.535), (0.267)", clip),
    "adam": ("Adam, 100 updates with the rate 0.001 of a bf16 weight of 1 with the gradient 1; that gives 0.9", adam),
    "norm": ("layer norm of (1e30, -1e30, 2e30, 0); that is (0.447, -1.342, 1.342, -0.447)", norm),
}


def main():
    library = of_library()
    print(f"| situation | PyTorch {torch.__version__} | fovea |\n|---|---|---|")
    for title, run in (("a query that no key is visible to, with `need_weights`", row_that_sees_nothing),
                       ("NaN in a key that `key_padding_mask` hides", nan_in_a_hidden_key)):
        print(f"| {title} | {run('torch')} | {run('fovea')} |")
    for name, (title, run) in SITUATIONS.items():
        print(f"| {title} | {run()} | {library[name]} |")


if __name__ == "__main__":
    main()
