#!/usr/bin/env python3
"""Times attention in PyTorch on a GPU, SDPA and FlexAttention, and fovea's fused kernels beside them.

    python3 tests/reference/attention_torch.py [--lengths 1024,4096,16384] [--widths 64,128] [--precision bf16,f32]
                                               [--methods plain,gaussian,t5] [--causal] [--passes forward,backward]
                                               [--tokens 16384] [--dimension 2048] [--rounds 5] [--compile]
                                               [--fovea build/experiments/benchmark] [--json]

A batch has --tokens tokens in sentences of one length, and --dimension / width heads. `plain` has no bias, `gaussian`
adds -(j - centre)^2 * precision with a centre and a precision of each query, `t5` a learned number for each head and
bucket of j - i; all of these numbers get gradients. SDPA computes plain attention only. FlexAttention is compiled for
each shape; --compile does nothing but that, so that several processes can fill its cache side by side.

TFLOP/s count the matrix products of plain attention over the visible pairs: two products forward, five backward. Times
are medians of rounds of at least 50 ms between two events of the GPU. With --fovea, `benchmark attention` computes the
same shapes, a process of its own after PyTorch's rows; without it, and always with --compile, only PyTorch is timed.
"""
import argparse
import itertools
import json
import math
import statistics
import subprocess

import torch
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
FOVEA_METHODS = {"plain": "global", "gaussian": "gaussian(window=query)", "t5": "t5"}


def t5_bucket(offset: torch.Tensor, buckets: int = 32, farthest: int = 128) -> torch.Tensor:
    """Returns the bucket of j - i: half of the buckets for each side, half of these for single offsets."""
    side = torch.where(offset > 0, buckets // 2, 0)
    distance, exact = offset.abs(), buckets // 4
    far = exact + (torch.log(distance.clamp(min=1) / exact) / math.log(farthest / exact) * exact).long()
    return side + torch.where(distance < exact, distance, far.clamp(max=buckets // 2 - 1))


class Case:
    """Attention of one shape in PyTorch; inputs and learned numbers require gradients."""

    def __init__(self, method: str, engine: str, length: int, width: int, precision: str, causal: bool, options):
        batch, heads = sentences_of(length, options), options.dimension // width
        make = torch.Generator(device="cuda").manual_seed(1)

        def normal(*shape: int, dtype: torch.dtype = DTYPES[precision]) -> torch.Tensor:
            return torch.randn(shape, generator=make, device="cuda", dtype=dtype, requires_grad=True)

        self.states = [normal(batch, heads, length, width) for _ in range(3)]
        self.learned = []
        if engine == "sdpa":
            self.attend = lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        else:
            mask = None
            if causal:
                mask = create_block_mask(lambda b, h, i, j: j <= i, None, None, length, length, device="cuda")
            change = self.change_of_score(method, normal, batch, heads, length)
            compiled = torch.compile(flex_attention, dynamic=False)
            self.attend = lambda q, k, v: compiled(q, k, v, score_mod=change, block_mask=mask)
        self.cotangent = torch.randn_like(self.states[0])
        self.out = None

    def change_of_score(self, method: str, normal, batch: int, heads: int, length: int):
        if method == "gaussian":
            centre = (torch.arange(length, device="cuda") + normal(batch, heads, length, dtype=torch.float32)).detach()
            precision = normal(batch, heads, length, dtype=torch.float32).detach().abs() * 1e-3
            self.learned = [centre.requires_grad_(), precision.requires_grad_()]
            return lambda score, b, h, i, j: score - (j - centre[b, h, i]) ** 2 * precision[b, h, i]
        if method == "t5":
            table = normal(heads, 32, dtype=torch.float32)
            bucket = t5_bucket(torch.arange(-length + 1, length, device="cuda"))
            self.learned = [table]
            return lambda score, b, h, i, j: score + table[h, bucket[j - i + length - 1]]
        return None

    def forward(self) -> None:
        with torch.no_grad():
            self.attend(*self.states)

    def backward(self) -> None:
        if self.out is None:
            self.out = self.attend(*self.states)
        torch.autograd.grad(self.out, self.states + self.learned, self.cotangent, retain_graph=True)


def seconds_of(run, rounds: int) -> float:
    """Returns the median over the rounds of the time of one run."""
    run()
    torch.cuda.synchronize()
    medians = []
    for _ in range(rounds):
        total, repeats = 0.0, 0
        while total < 0.05:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run()
            end.record()
            end.synchronize()
            total += begin.elapsed_time(end) / 1e3
            repeats += 1
        medians.append(total / repeats)
    return statistics.median(medians)


def timed(shape: dict, name: str, seconds: float, options) -> dict:
    length, width = shape["length"], shape["width"]
    pairs = length * (length + 1) / 2 if shape["causal"] else length * length
    heads = options.dimension // width
    flops = 2 * (5 if name == "backward" else 2) * sentences_of(length, options) * heads * width * pairs
    return {"pass": name, "milliseconds": round(seconds * 1e3, 3), "tflops": round(flops / seconds / 1e12, 1)}


def sentences_of(length: int, options) -> int:
    return max(options.tokens // length, 1)


def first_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[0][:160] if lines else ""


def torch_rows(shape: dict, options):
    for engine in ["sdpa", "flex"] if shape["method"] == "plain" else ["flex"]:
        row = dict(shape, engine=engine)
        try:
            case = Case(options=options, **row)
            for name in options.passes.split(","):
                if options.compile:
                    getattr(case, name)()
                    continue
                seconds = seconds_of(getattr(case, name), options.rounds)
                yield row | timed(shape, name, seconds, options)
        except Exception as error:  # an engine that refuses a shape says so in its row
            yield row | {"error": f"{type(error).__name__}: {first_line(str(error))}"}


def fovea_rows(shape: dict, options):
    for name in options.passes.split(","):
        command = [options.fovea, "attention", "--device", "cuda", "--json", "--rounds", str(options.rounds),
                   "--method", FOVEA_METHODS[shape["method"]], "--precision", shape["precision"], "--pass", name,
                   "--batch", str(sentences_of(shape["length"], options)), "--queries", str(shape["length"]),
                   "--heads", str(options.dimension // shape["width"]), "--head-dim", str(shape["width"])]
        run = subprocess.run(command + ["--causal"] * shape["causal"], capture_output=True, text=True)
        row = dict(shape, engine="fovea")
        if run.returncode:
            yield row | {"pass": name, "error": first_line(run.stderr)}
        else:
            yield row | timed(shape, name, json.loads(run.stdout.splitlines()[0])["milliseconds"] / 1e3, options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", default="1024,4096,16384")
    parser.add_argument("--widths", default="64,128")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--methods", default="plain,gaussian,t5", help=f"of {', '.join(FOVEA_METHODS)}")
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--passes", default="forward,backward")
    parser.add_argument("--tokens", type=int, default=16384, help="tokens of a batch (default: 16384)")
    parser.add_argument("--dimension", type=int, default=2048, help="heads times width (default: 2048)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compile", action="store_true", help="fill FlexAttention's cache, and time nothing")
    parser.add_argument("--fovea", metavar="PROGRAM", help="`benchmark`, whose kernels are timed too")
    parser.add_argument("--json", action="store_true", help="one JSON object a row instead of a table")
    options = parser.parse_args()
    torch._dynamo.config.recompile_limit = 1000  # a compilation for each shape

    results = []
    for precision, method, width, length in itertools.product(
            options.precision.split(","), options.methods.split(","), map(int, options.widths.split(",")),
            map(int, options.lengths.split(","))):
        shape = dict(method=method, precision=precision, width=width, length=length, causal=options.causal)
        rows = list(torch_rows(shape, options))
        torch.cuda.empty_cache()
        if options.fovea and not options.compile:
            rows += fovea_rows(shape, options)
        if options.json:
            print(*map(json.dumps, rows), sep="\n", flush=True)
        results += rows
    if options.json or options.compile:
        return
    columns = ["method", "precision", "width", "length", "causal", "engine", "pass", "milliseconds", "tflops", "error"]
    table = [columns] + [[str(row.get(column, "")) for column in columns] for row in results]
    widths = [max(len(line[i]) for line in table) for i in range(len(columns))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


if __name__ == "__main__":
    main()
