"""Time and memory of attention with gradients on the CPU: PyTorch's ways, and fovea.torch.

    python attention/python/compare/benchmark.py                    # the tables of BENCHMARKS.md
    python attention/python/compare/benchmark.py --sizes 512 --tables attention

Every number is measured in a process of its own: the least processor time of several calls, which is the time on an
idle machine, and by how much the first call raises the memory of the process. All ways of one row compute the same
numbers, which is checked first.
"""
import argparse
import ctypes
import math
import multiprocessing
import os
import pathlib
import re
import subprocess
import tempfile
import time

D, H = 64, 4  # width of a head, heads
RADIUS, CLIP = 64, 16  # of the window and of relative positions, in tokens


def variants():
    """Each variant's specification, and its bias or mask [..., n, n], from queries, distances j - i and parameters."""
    import torch

    from fovea.torch import pointwise

    def relative(query, distance, parameters):
        table = query @ parameters["relative.key_table"].T / D ** 0.5  # [B, H, n, 2 CLIP + 1]
        return table.gather(-1, (distance.clamp(-CLIP, CLIP) + CLIP).expand(*query.shape[:2], *distance.shape))

    def t5(query, distance, parameters):
        near, far, last = 8, 128, 15  # of one side
        length = distance.abs()
        large = near + (last + 1 - near) * (length.clamp(min=1) / near).log() / math.log(far / near)
        bucket = torch.where(length < near, length, large.long().clamp(max=last)) + (last + 1) * (distance > 0)
        return parameters["t5.bias"][bucket].permute(2, 0, 1)

    return {
        "plain": ("global", None),
        "Gaussian": (pointwise("z - (sharpness * (j - i)) ** 2", sharpness="head"),
                     lambda query, distance, parameters:
                     -(parameters["pointwise.sharpness"].view(-1, 1, 1) * distance) ** 2),
        "relative": (f"relative(clip={CLIP}, values=false)", relative),
        "T5": ("t5", t5),
        "window": (f"sliding(left={RADIUS}, right={RADIUS})",
                   lambda query, distance, parameters: distance.abs() <= RADIUS),
    }


def parameters_of(specification, dtype):
    import torch

    import fovea
    generator = torch.Generator().manual_seed(3)
    return {name: (torch.rand(value.shape, generator=generator, dtype=dtype) * 0.1).requires_grad_()
            for name, value in fovea.parameters(f"classic({specification}, heads={H})", H * D, heads=H).items()}


def cores(specification, bias_of):
    """The ways of computing the heads' outputs from query, key, value [B, H, n, D] and parameters."""
    import torch

    import fovea.torch

    def bias(query, parameters):
        if bias_of is None:
            return None
        n = query.shape[2]
        return bias_of(query, torch.arange(n) - torch.arange(n)[:, None], parameters)

    def eager(query, key, value, parameters):
        z = query @ key.transpose(-1, -2) / D ** 0.5
        change = bias(query, parameters)
        if change is not None:
            z = z.masked_fill(~change, float("-inf")) if change.dtype == torch.bool else z + change
        return z.softmax(-1) @ value

    def sdpa(query, key, value, parameters):
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=bias(query, parameters))

    def ours(query, key, value, parameters):
        return fovea.torch.attention(query, key, value, specification, parameters=parameters)

    return {"eager": eager, "SDPA": sdpa, "fovea": ours}


def heads_of(sentences, n, dtype):
    """Queries, keys and values, as a projection leaves them in memory."""
    import torch
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(sentences, n, H, D, generator=generator, dtype=dtype).transpose(1, 2).requires_grad_()
            for _ in range(3)]


def flexible_attention():
    """What FlexAttention says to a call with inputs that need a gradient."""
    import torch
    from torch.nn.attention.flex_attention import flex_attention
    try:
        torch.compile(flex_attention)(*heads_of(1, 128, torch.float32), score_mod=lambda z, b, h, i, j: z - abs(i - j))
    except Exception as error:  # whatever it is, it is the answer
        cause = [line for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {cause[0].strip() if cause else ''}"[:200]
    return "computes it"


# ---- Measuring

def memory(field):
    """VmRSS or VmHWM, the present and the highest memory of this process, in MiB."""
    return int(re.search(rf"{field}:\s*(\d+)", pathlib.Path("/proc/self/status").read_text())[1]) / 1024


def measured(step, seconds):
    """The least processor time of a call of step() in ms, and the memory that its first call needs, in MiB."""
    ctypes.CDLL(None).malloc_trim(0)
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the highest memory is counted anew
    before = memory("VmRSS")
    step()
    used = memory("VmHWM") - before
    times, end = [], time.process_time() + seconds
    while len(times) < 3 or time.process_time() < end:
        begin = time.process_time()
        step()
        times.append(time.process_time() - begin)
    return min(times) * 1e3, max(used, 0)


def attention_step(variant, way, size, seconds):
    import torch
    specification, bias_of = variants()[variant]
    core = cores(specification, bias_of)[way]

    def step(sentences, tokens):
        states, parameters = heads_of(sentences, tokens, torch.float32), parameters_of(specification, torch.float32)
        out = core(*states, parameters)
        cotangent = torch.ones_like(out)
        return lambda: torch.autograd.grad(core(*states, parameters), [*states, *parameters.values()], cotangent)

    step(1, 8)()  # loads libraries
    return measured(step(*size), seconds)


def encoder_step(variant, way, size, seconds):
    """A step of nn.TransformerEncoder: two layers, loss and Adam. The way "linear" leaves attention out."""
    import torch

    import fovea.torch
    specification, bias_of = variants()[variant]
    own = {"linear": lambda query, key, value, parameters: query + key + value, **cores(specification, bias_of)}

    class Heads(torch.nn.Module):
        batch_first = True

        def __init__(self):
            super().__init__()
            self.input, self.output = torch.nn.Linear(H * D, 3 * H * D), torch.nn.Linear(H * D, H * D)
            self.names = {}
            for name, value in parameters_of(specification, torch.float32).items():
                self.names[name] = name.replace(".", "_")
                self.register_parameter(self.names[name], torch.nn.Parameter(value.detach()))

        def forward(self, x, *_, **__):
            query, key, value = (part.unflatten(2, (H, D)).transpose(1, 2) for part in self.input(x).chunk(3, -1))
            parameters = {name: getattr(self, attribute) for name, attribute in self.names.items()}
            out = own[way](query, key, value, parameters)
            return self.output(out.transpose(1, 2).flatten(2)), None

    torch.manual_seed(5)
    layer = torch.nn.TransformerEncoderLayer(H * D, H, 4 * H * D, dropout=0.0, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    for each in encoder.layers:
        each.self_attn = fovea.torch.MultiheadAttention(specification, H * D, H) if way == "module" else Heads()
    optimizer = torch.optim.Adam(encoder.parameters())

    def step(sentences, tokens):
        x = torch.randn(sentences, tokens, H * D)
        def run():
            optimizer.zero_grad()
            encoder(x).square().mean().backward()
            optimizer.step()
        return run

    step(1, 8)()
    return measured(step(*size), seconds)


FORMULAS = {
    "z - exp(a) * abs(j - i)": "z - exp(a) * abs(at.key - at.query)",
    "z - (a * (j - i)) ** 2": "z - (a * (at.key - at.query)) * (a * (at.key - at.query))",
    "z - log(1 + ((j - i) / a) ** 2)": "z - log(T(1) + ((at.key - at.query) / a) * ((at.key - at.query) / a))",
    "where(j <= i, z * sigmoid(a * (j - i)), z - tanh(a) * z)":
        "select(at.key <= at.query, z * sigmoid(a * (at.key - at.query)), z - tanh(a) * z)",
}


def compiled_formulas(folder, compiler):
    """A library with a method for each formula, which `method` compiles."""
    text = '#pragma once\n#include "attention/method.h"\nnamespace fovea {\n'
    for k, formula in enumerate(FORMULAS.values()):
        text += f"""
struct Formula{k} {{
  static constexpr const char* name = "formula_{k}";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T> at, T a) const {{ return {formula}; }}
}};
struct Method{k} : LocalnessMethod {{
  struct Options {{}};
  static constexpr MethodCard card = {{"formula_{k}", "a formula", "benchmark", "z"}};
  static void visit(OptionVisitor&, Options&) {{}}
  Method{k}(const MethodShape& shape, const Options&)
      : a_(parameter("a", {{shape.heads}}, Initializer::constant(0))) {{}}
  void add_terms(const AttentionContext&, Plan& plan) override {{
    plan.biases.push_back(pointwise(Formula{k}{{}}, PerHead{{a_}}));
  }}
  Variable a_;
}};
"""
    names = ", ".join(f"fovea::Method{k}" for k in range(len(FORMULAS)))
    text += "}\n" + f'extern "C" const fovea::MethodLibrary fovea_methods = fovea::methods_of<{names}>;\n'
    header = pathlib.Path(folder) / "formulas.h"
    header.write_text(text)
    subprocess.run([compiler, header], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return str(pathlib.Path(folder) / "libformulas.so")


def formula_step(specification, library, size, seconds):
    import torch

    import fovea.torch
    if library:
        fovea.load_methods(library)
    (name,) = fovea.parameters(f"classic({specification}, heads={H})", H * D, heads=H)
    a = torch.full((H,), 0.02).requires_grad_()

    def step(sentences, tokens):
        states = heads_of(sentences, tokens, torch.float32)
        cotangent = torch.ones_like(states[0])
        return lambda: torch.autograd.grad(
            fovea.torch.attention(*states, specification, parameters={name: a}), [*states, a], cotangent)

    step(1, 8)()
    return measured(step(*size), seconds)


def check(variant):
    """Whether all ways of a variant give the same output and gradients, in f64."""
    import torch
    specification, bias_of = variants()[variant]
    results = []
    for core in cores(specification, bias_of).values():
        states, parameters = heads_of(2, 200, torch.float64), parameters_of(specification, torch.float64)
        out = core(*states, parameters)
        leaves = [*states, *parameters.values()]
        results.append([out, *torch.autograd.grad((out * out.detach().cos()).sum(), leaves)])
    for other in results[:-1]:
        for a, b in zip(other, results[-1]):
            torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


# ---- Tables

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 512, 2048], help="tokens of a sentence")
    parser.add_argument("--batch", type=int, default=2048, help="tokens of a batch, if a sentence is shorter")
    parser.add_argument("--tables", nargs="+", default=["attention", "encoder", "formulas"],
                        choices=["attention", "encoder", "formulas"])
    parser.add_argument("--seconds", type=float, default=2, help="time for each number")
    parser.add_argument("--method", help="the script `method` of fovea's build or installation, for compiled formulas")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch._dynamo", "fovea.torch"])  # imported once for all processes

    def alone(function, *inputs):
        with context.Pool(1) as pool:
            return pool.apply(function, inputs)

    def size(n):
        return max(arguments.batch // n, 1), n

    def row(name, n, results):
        cells = [f"{milliseconds:.4g} ms, {memory:.0f} MiB" for milliseconds, memory in results]
        print(f"| {name} | {n} | {' | '.join(cells)} |", flush=True)

    def table(title, ways, step, names):
        print(f"\n{title}\n\n| variant | tokens | {' | '.join(ways)} |\n|---|---|{'---|' * len(ways)}", flush=True)
        for variant in names:
            for n in arguments.sizes:
                row(variant, n, [alone(step, variant, way, size(n), arguments.seconds) for way in ways])

    names = ["plain", "Gaussian", "relative", "T5", "window"]
    if {"attention", "encoder"} & set(arguments.tables):
        for variant in names:
            alone(check, variant)
    if "attention" in arguments.tables:
        table("Attention, forward and backward", ["eager", "SDPA", "fovea"], attention_step, names)
        print(f"\nFlexAttention, compiled, inputs with gradients: {alone(flexible_attention)}", flush=True)
    if "encoder" in arguments.tables:
        table("A step of nn.TransformerEncoder", ["eager", "SDPA", "fovea", "module", "linear"], encoder_step, names)
    if "formulas" in arguments.tables and arguments.method:
        print("\nA formula that is interpreted, and compiled\n\n| formula | tokens | interpreted | compiled |\n"
              "|---|---|---|---|", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            library = compiled_formulas(folder, pathlib.Path(arguments.method).resolve())
            for k, formula in enumerate(FORMULAS):
                for n in arguments.sizes:
                    ways = [(f'pointwise("{formula}", a=head)', None), (f"formula_{k}", library)]
                    row(f"`{formula}`", n, [alone(formula_step, *way, size(n), arguments.seconds) for way in ways])


if __name__ == "__main__":
    main()
