"""The functional form, formulas as text and second derivatives, against plain computations in PyTorch."""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import venv

import numpy
import pytest
import torch

import fovea
from fovea.torch import Attention, attention, initial_parameters, pointwise
from test_fovea import randomised, states

B, H, I, J, D = 2, 3, 5, 7, 4


def heads(tokens, width=D, seed=5):
    """[B, H, tokens, width], whose memory has the order of a projection's result, [B, tokens, H, width]."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(B, tokens, H, width, generator=generator, dtype=torch.float64) * 2 - 1).transpose(1, 2)


def numbers(*shape, seed=7):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=torch.float64) + 0.25


def eager(query, key, value, change=lambda z: z, window=lambda w: w, hidden=None):
    z = change(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5)
    if hidden is not None:
        z = z.masked_fill(hidden, float("-inf"))
    return window(z.softmax(-1)) @ value


def agree(ours, theirs, leaves, second=True):
    """Outputs, gradients and, unless second is False, gradients of the gradients' squares."""
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    weight = numbers(*ours.shape, seed=11)
    def gradients(out):
        return torch.autograd.grad((out * weight).square().sum(), leaves, create_graph=second)
    mine, wanted = gradients(ours), gradients(theirs)
    for a, b in zip(mine, wanted):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)
        assert b.abs().max() > 1e-6
    if second:
        squares = [sum(x.square().sum() for x in each) for each in (mine, wanted)]
        for a, b in zip(*(torch.autograd.grad(x, leaves) for x in squares)):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


i, j = torch.arange(I, dtype=torch.float64)[:, None], torch.arange(J, dtype=torch.float64)[None, :]
shapes = {"head": (H,), "query": (B, H, I), "key": (B, H, J), "pair": (B, H, I, J), "offset:3": (H, 1, 7)}


def spread(kind, x):
    """A capture for all pairs."""
    if kind == "offset:3":
        return x.expand(H, I, 7).gather(2, ((j - i).clamp(-3, 3) + 3).long().expand(H, I, J))
    if kind == "head":
        return x.view(-1, 1, 1)
    return {"query": x[..., None], "key": x[..., None, :], "pair": x}[kind]


@pytest.mark.parametrize("kind", shapes)
@pytest.mark.parametrize("text, change", [
    ("z - exp(x) * abs(j - i)", lambda z, x: z - x.exp() * (j - i).abs()),
    ("where(j <= i + 1, z * x, tanh(z) / (1 + x ** 2))",
     lambda z, x: torch.where(j <= i + 1, z * x, z.tanh() / (1 + x ** 2))),
])
def test_a_formula_of_logits_agrees_with_eager_attention(kind, text, change):
    query, key, value = (heads(n, seed=n + k).requires_grad_() for k, n in enumerate((I, J, J)))
    x = numbers(*shapes[kind]).requires_grad_()
    ours = attention(query, key, value, pointwise(text, x=kind), parameters={"pointwise.x": x})
    agree(ours, eager(query, key, value, lambda z: change(z, spread(kind, x))), [query, key, value, x])


def test_a_formula_of_weights_and_several_captures_beside_another_method():
    query, key, value = (heads(I, seed=k).requires_grad_() for k in range(3))
    a, b = numbers(B, H, I).requires_grad_(), numbers(H, seed=8).requires_grad_()
    distance = (torch.arange(I) - torch.arange(I)[:, None]).double()
    spec = "alibi + " + pointwise("w * sigmoid(a - b * abs(i - j))", a="query", b="head")
    slopes = torch.tensor([2.0 ** (-8 * (h + 1) / H) for h in range(H)], dtype=torch.float64).view(-1, 1, 1)
    ours = attention(query, key, value, spec, parameters={"pointwise.a": a, "pointwise.b": b}, causal=True)
    theirs = eager(query, key, value, lambda z: z - slopes * distance.abs(),
                   lambda w: w * (a[..., None] - b.view(-1, 1, 1) * distance.abs()).sigmoid(), distance > 0)
    agree(ours, theirs, [query, key, value, a, b])


def test_a_long_row_of_a_formula_agrees_with_eager_attention():
    """Rows of several blocks, the last of which is only partly filled; f32 and f64."""
    generator = torch.Generator().manual_seed(2)
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 2e-5)):
        query, key, value = (torch.rand(1, 2, 413, 8, generator=generator, dtype=dtype).requires_grad_()
                             for _ in range(3))
        width = (torch.rand(2, generator=generator, dtype=dtype) + 0.5).requires_grad_()
        distance = (torch.arange(413) - torch.arange(413)[:, None]).to(dtype)
        ours = attention(query, key, value, pointwise("z - (width * (j - i) / 20) ** 2", width="head"),
                         parameters={"pointwise.width": width})
        theirs = eager(query, key, value, lambda z: z - (width.view(-1, 1, 1) * distance / 20) ** 2)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)
        leaves = [query, key, value, width]
        for a, b in zip(*(torch.autograd.grad(out.square().sum(), leaves) for out in (ours, theirs))):
            torch.testing.assert_close(a, b, rtol=50 * tolerance, atol=50 * tolerance)


def test_the_branch_that_is_not_taken_has_no_gradient():
    """Where the root is taken of a negative number, or at 0, its derivative is NaN or infinite."""
    query, key, value = (heads(I, seed=k).requires_grad_() for k in range(3))
    x = numbers(H).requires_grad_()
    out = attention(query, key, value, pointwise("where(j < i, z * x * sqrt(i - j), z)", x="head"),
                    parameters={"pointwise.x": x})
    for gradient in torch.autograd.grad(out.square().sum(), [query, key, value, x]):
        assert gradient.isfinite().all() and gradient.abs().max() > 0


@pytest.mark.parametrize("masks", [{}, {"causal": True}, {"lengths": [7, 4]}, {"allowed": numbers(B, H, J, J) > 0.4}])
def test_the_functional_form_agrees_with_sdpa(masks):
    query, key, value = (heads(J, seed=k).requires_grad_() for k in range(3))
    seen = masks.get("allowed", torch.ones(1, 1, J, J, dtype=torch.bool)).clone()
    if "lengths" in masks:
        seen = torch.arange(J) < torch.tensor(masks["lengths"])[:, None, None, None]
    if "causal" in masks:
        seen = seen.tril()
    if "allowed" in masks:
        seen[..., 0] = True
        masks = {"allowed": seen}
    theirs = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
    ours = attention(query, key, value, **masks)
    agree(ours, theirs, [query, key, value], second=False)


def test_values_of_another_width_and_contiguous_heads():
    query, key, value = heads(I).contiguous(), heads(J, seed=2).contiguous(), heads(J, 6, seed=3)
    out = attention(query, key, value)
    assert out.shape == (B, H, I, 6)
    torch.testing.assert_close(out, eager(query, key, value), rtol=0, atol=1e-12)


@pytest.mark.parametrize("spec", ["gaussian(window=query)", "relative(clip=2) + window", "t5 + gate", "rotary",
                                  "heads(additive*1, sparsemax*2)"])
def test_methods_of_the_functional_form_have_gradients_of_both_orders(spec):
    own = fovea.parameters(f"classic({spec}, heads={H})", H * D, heads=H)
    parameters = {name: (numbers(*value.shape, seed=k) - 0.7).requires_grad_()
                  for k, (name, value) in enumerate(own.items())}
    query, key, value = (heads(4, seed=k).requires_grad_() for k in range(3))
    def f(query, key, value, *tensors):
        return attention(query, key, value, spec, parameters=dict(zip(parameters, tensors)), lengths=[4, 3])
    arguments = (query, key, value, *parameters.values())
    assert torch.autograd.gradcheck(f, arguments, fast_mode=True)
    assert torch.autograd.gradgradcheck(f, arguments, fast_mode=True, atol=1e-4)


@pytest.mark.parametrize("spec", ["global", "gaussian(window=query)", "relative(clip=2)", "window", "alibi + soft_cap",
                                  "talking_heads", "t5", pointwise("z - exp(a) * (j - i) ** 2", a="head")])
def test_modules_have_second_derivatives(spec):
    module = randomised(Attention(spec, model_dim=6, heads=2).double()).eval()
    names = [name for name, value in module.named_parameters()]
    def f(x, *values):
        return torch.func.functional_call(module, dict(zip(names, values)), (x,), {"lengths": torch.tensor([4, 3])})
    own = [value.detach().clone().requires_grad_() for value in module.parameters()]
    arguments = (states(4).requires_grad_(), *own)
    assert torch.autograd.gradgradcheck(f, arguments, fast_mode=True, atol=1e-4)


def test_a_module_takes_a_capture_with_a_number_for_each_query():
    module = randomised(Attention("relative(clip=2) + " + pointwise("z - (j - center) ** 2 / 9", center="query"),
                                  model_dim=6, heads=2).double())
    assert module.state_dict()["pointwise.center"].shape == (2, 1)
    x, center = states(4), numbers(2, 2, 4).requires_grad_()
    given = module(x, parameters={"pointwise.center": center})
    assert torch.autograd.gradcheck(lambda c: module(x, parameters={"pointwise.center": c}), [center], fast_mode=True)
    with torch.no_grad():
        module.pointwise.center.copy_(center[0, :, :1])
        torch.testing.assert_close(module(x)[0, 0], module(x, parameters={"pointwise.center": center})[0, 0])
    assert not torch.allclose(module(x), given)


def test_the_function_reads_the_memory_of_its_arguments(monkeypatch):
    calls = []
    def kept(*arguments):
        calls.append(made := make(*arguments))
        return made
    make = fovea._fovea.Call
    monkeypatch.setattr(fovea._fovea, "Call", kept)
    tensors = {"query": heads(I), "key": heads(J), "value": heads(J), "pointwise.x": numbers(B, H, J)}
    *states_of_heads, x = tensors.values()
    attention(*states_of_heads, pointwise("z * x", x="key"), parameters={"pointwise.x": x})
    for name, tensor in tensors.items():
        assert calls[0].address(name) == tensor.data_ptr()
    x = numpy.random.default_rng(1).random((2, 5, 6))
    fovea.attend("global", x)
    assert calls[1].address("query") == x.ctypes.data


def test_the_backward_pass_holds_no_memory_of_the_results():
    """Gradients that are changed in place leave those of a second backward pass as they are."""
    query, key, value = (heads(I, seed=k).requires_grad_() for k in range(3))
    out = attention(query, key, value, "alibi").square().sum()
    first = torch.autograd.grad(out, [query, key, value], retain_graph=True)
    expected = [gradient.clone() for gradient in first]
    for gradient in first:
        gradient.zero_()
    for a, b in zip(torch.autograd.grad(out, [query, key, value]), expected):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_third_derivatives_are_refused():
    query, key, value = (heads(4, seed=k).requires_grad_() for k in range(3))
    out = attention(query, key, value).square().sum()
    first, = torch.autograd.grad(out, [query], create_graph=True)
    second, = torch.autograd.grad(first.square().sum(), [query], create_graph=True)
    with pytest.raises(RuntimeError, match="differentiated twice, not three times"):
        torch.autograd.grad(second.sum() + query.sum(), [query])


@pytest.mark.parametrize("wrong, message", [
    (lambda: pointwise("z - slop * j", slope="head"), "no name 'slop' .*column 5.*did you mean 'slope'"),
    (lambda: pointwise("z * (slope + 1", slope="head"), r"ends too early \(column 15\); expected '\)'"),
    (lambda: pointwise("z * slope", slope="vector"), "slope: found 'vector'; expected 'head'"),
    (lambda: pointwise("z * slope", slope=3), "slope: found 3; expected 'head'"),
    (lambda: pointwise("z * j", slope="head"), "does not read the capture 'slope'"),
    (lambda: pointwise('z * "', slope="head"), "formula: found a quotation mark"),
    (lambda: pointwise(None), "formula: found None; expected text"),
    (lambda: pointwise("z * heads", heads="head"), "heads: a method has an option of this name"),
    (lambda: pointwise("z * a", a="head, heads=1"), "a: found 'head, heads=1'; expected 'head'"),
    (lambda: pointwise("w + 0.1"), "the formula is no multiple of w"),
    (lambda: attention(heads(3), heads(3)[:, :1], heads(3)), r"key: found \[2, 1, 3, 4\]; expected \[2, 3, 3, width"),
    (lambda: attention(heads(3), heads(3), heads(3)[0]), "value: found 3 dimensions; expected 4"),
    (lambda: attention(heads(3), heads(3).numpy(), heads(3)), "key: found ndarray; expected 4 dimensions"),
    (lambda: attention(heads(3), heads(3), heads(3), "relative(clip=2)"), "parameter 'relative.*is missing"),
    (lambda: attention(heads(3), heads(3), heads(3), "gausian"), "no method 'gausian'"),
    (lambda: attention(heads(3), heads(3), heads(3), pointwise("z * x", x="query"),
                       parameters={"pointwise.x": numbers(B, H, 4)}),
     r"the capture 'x' is \[2, 3, 4\]; expected \[3, 1\], at most \[2, 3, 3\]"),
    (lambda: attention(heads(3), heads(3), heads(3), pointwise("z * x", x="offset:2"),
                       parameters={"pointwise.x": numbers(H, 5)}), r"'x' is \[3, 5\]; expected \[3, 1, 5\], at most"),
    (lambda: attention(heads(3), heads(3), heads(3), is_causal=True), "no argument 'is_causal'; did you mean 'causal'"),
    (lambda: attention(heads(3), heads(3), heads(3), lenghts=[1, 2]), "no argument 'lenghts'; did you mean 'lengths'"),
    (lambda: attention(heads(3), heads(3), heads(3), "global + Relative"), r"no method 'Relative' \(column 10\)"),
    (lambda: pointwise("min(z, 1)"), "no function 'min'.*did you mean 'minimum'"),
    (lambda: pointwise("z if j > i else 0"), r"unexpected 'if' \(column 3\); write where"),
    (lambda: fovea.describe("gausian"), "did you mean 'gaussian'"),
    (lambda: attention(heads(3), heads(3), heads(3), pointwise("z * x", x="head"), parameters={"pointwise.x": 2.0}),
     "pointwise.x: found float; expected a tensor"),
    (lambda: attention(heads(3), heads(3), heads(3), "global", parameters={"x": numbers(H)}), "no parameter 'x'"),
    (lambda: attention(heads(3), heads(3), heads(3), dropout=1.5), "dropout: found 1.5"),
])
def test_a_mistake_is_a_value_error_of_one_line(wrong, message):
    with pytest.raises(ValueError, match=message) as error:
        wrong()
    assert "\n" not in str(error.value)


def test_initial_parameters_are_all_that_a_call_needs():
    for specification, causal in (("relative", False), ("forgetting", True), ("gaussian", True)):
        start = initial_parameters(specification, heads=H, head_dim=D, value_dim=6,
                                   place="decoder" if causal else "encoder")
        attention(heads(I).float(), heads(I).float(), heads(I, 6).float(), specification, parameters=start,
                  causal=causal)


def of_script(name, *arguments):
    script = pathlib.Path(__file__).parent.parent / "compare" / name
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=True).stdout


def test_the_tables_of_time_and_memory_are_printed():
    """The script also compares the results of all ways."""
    tables = of_script("benchmark.py", "--sizes", "40", "--batch", "80", "--seconds", "0", "--tables", "attention",
                       "encoder")
    rows = re.findall(r"^\| (\w+) \| 40 \|((?: [\d.]+ ms, \d+ MiB \|)+)$", tables, re.MULTILINE)
    assert [name for name, _ in rows] == 2 * ["plain", "Gaussian", "relative", "T5", "window"]
    assert {numbers.count("ms") for _, numbers in rows[:5]} == {3} and "FlexAttention, compiled" in tables


@pytest.mark.skipif(shutil.which("pkg-config") is None or
                    subprocess.run(["pkg-config", "--exists", "fovea"]).returncode != 0,
                    reason="needs pkg-config and fovea's file for it")
def test_the_table_of_situations_is_the_page():
    page = (pathlib.Path(__file__).parent.parent / "compare" / "SITUATIONS.md").read_text(encoding="utf-8")
    def of_fovea(text):
        rows = [line.split(" | ") for line in text.splitlines()]
        return [(row[0], row[2]) for row in rows if len(row) == 3 and row[0] != "| situation"]
    found = of_fovea(of_script("situations.py"))
    assert len(found) == 7 and of_fovea(page) == found


@pytest.mark.skipif(not (importlib.util.find_spec("scikit_build_core") and importlib.util.find_spec("nanobind")),
                    reason="needs scikit-build-core and nanobind")
def test_a_wheel_works_in_a_clean_environment(tmp_path):
    """Only NumPy is there beside the wheel: the package must work without PyTorch."""
    package = pathlib.Path(__file__).parent.parent
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
                    "--wheel-dir", tmp_path, package], check=True)
    (wheel,) = tmp_path.glob("fovea-*.whl")
    venv.create(tmp_path / "clean", with_pip=False)
    site = pathlib.Path(sysconfig.get_path("purelib", vars={"base": tmp_path / "clean"}))
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel],
                   check=True)
    for part in pathlib.Path(numpy.__file__).parent.parent.glob("numpy*"):
        (site / part.name).symlink_to(part)
    program = """
import numpy, fovea, sys
x = numpy.random.default_rng(1).random((2, 5, 6))
out = fovea.attend(fovea.pointwise("z - abs(j - i)") + " + gaussian", x, heads=2)
assert out.shape == x.shape and not numpy.allclose(out, x) and "torch" not in sys.modules
print(fovea.__file__)
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run([tmp_path / "clean" / "bin" / "python", "-c", program], cwd=tmp_path, env=environment,
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert pathlib.Path(run.stdout.strip()).is_relative_to(tmp_path)
