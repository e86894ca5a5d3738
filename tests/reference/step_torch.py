#!/usr/bin/env python3
"""Times a training step in eager PyTorch, on the CPU or a GPU: forward, backward, clipping, Adam.

    python3 tests/reference/step_torch.py [--models tiny,base,mini,medium] [--precision f32,bf16] [--repeats 7]
                                          [--threads 2] [--fovea build/experiments/benchmark] [--json]
                                          [--device cpu|cuda]

Encoders that label sentences: tiny has 2 layers, d 128, 4 heads, feed-forward 512; base 6 layers, d 512, 8 heads,
feed-forward 2048. Vocabulary 8192, 128 sentences of 16 to 32 tokens padded to 32: a batch of 4096 positions.

Encoder-decoders (transformer_torch.py), vocabulary 8000, label smoothing 0.1, 128 pairs of 28 to 32 tokens: mini is the
preset of that name, 4 + 4 layers, d 128, 4 heads, feed-forward 256; medium has 3 + 3 layers, d 256, feed-forward 1024.
Both have dropout 0.3.

The rows of one model take turns, a few steps each, and the medians over the turns are reported; `processor_seconds` of
a step, all threads together, says with --threads 1 how fast it is even while other programs run. bf16 is autocast. With
--fovea, `benchmark step` of the same model takes its turn after each of PyTorch's, and `ratio` is the median of its
speed over theirs. On a GPU both compute f32 products without TF32, and a turn has ten times as many steps, since a step
takes milliseconds; its batches lie in pinned memory of the host. Needs PyTorch, as fovea never does.
"""
import argparse
import json
import os
import statistics
import subprocess
import time

import torch
from torch.nn import functional

from encoder_torch import EncoderClassifier
import transformer_torch
from transformer_torch import Sizes, Transformer

MODELS = {
    "tiny": dict(layers=2, dim=128, heads=4, hidden=512),
    "base": dict(layers=6, dim=512, heads=8, hidden=2048),
    **transformer_torch.MODELS,
}
STEPS = {"tiny": 6, "base": 1, "mini": 1, "medium": 1}  # in one turn
VOCABULARY, SENTENCES, LENGTH = 8192, 128, 32


def sentences(generator: torch.Generator, vocabulary: int, shortest: int):
    tokens = torch.randint(4, vocabulary, (SENTENCES, LENGTH), generator=generator)
    lengths = torch.randint(shortest, LENGTH + 1, (SENTENCES, 1), generator=generator)
    tokens[torch.arange(LENGTH)[None, :] >= lengths] = 0
    return tokens


class Classifying:
    """A batch has tokens and labels."""

    def __init__(self, model: str, layer: str):
        self.network = EncoderClassifier(VOCABULARY, layer=layer, **MODELS[model])

    @staticmethod
    def batch(generator: torch.Generator, model: str):
        tokens = sentences(generator, VOCABULARY, LENGTH // 2)
        return tokens, torch.randint(0, 2, (SENTENCES,), generator=generator)

    def loss(self, tokens: torch.Tensor, labels: torch.Tensor):
        return functional.cross_entropy(self.network(tokens), labels)


class Translating:
    """A batch has sources and targets; what the decoder reads is the target, a step later."""

    def __init__(self, model: str, layer: str):
        self.network = Transformer(MODELS[model])

    @staticmethod
    def batch(generator: torch.Generator, model: str):
        return tuple(sentences(generator, MODELS[model].vocabulary, LENGTH * 7 // 8) for _ in range(2))

    def loss(self, source: torch.Tensor, target: torch.Tensor):
        logits = self.network(source, functional.pad(target, (1, -1), value=2))
        return functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=0, label_smoothing=0.1)


def task_of(model: str):
    return Translating if isinstance(MODELS[model], Sizes) else Classifying


def steps_of(model: str, device: str) -> int:
    """Returns the number of steps in one turn."""
    return STEPS[model] * (1 if device == "cpu" else 10)


class Row:
    def __init__(self, model: str, layer: str, optimizer: str, precision: str, device: str):
        torch.manual_seed(1)
        self.name = dict(model=model, precision=precision, layer=layer, optimizer=optimizer)
        self.steps = steps_of(model, device)
        self.device = torch.device(device)
        self.autocast = torch.autocast(self.device.type, torch.bfloat16, enabled=precision == "bf16")
        self.task = task_of(model)(model, layer)
        self.network = self.task.network.to(self.device)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-4, fused=optimizer == "fused Adam")
        self.seconds, self.processor_seconds = [], []

    def step(self, *batch: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        with self.autocast:
            loss = self.task.loss(*(tensor.to(self.device, non_blocking=True) for tensor in batch))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def turn(self, batches) -> None:
        self.wait()
        start, processor_start = time.perf_counter(), time.process_time()
        for i in range(self.steps):
            self.step(*batches[i % len(batches)])
        self.wait()
        self.seconds.append((time.perf_counter() - start) / self.steps)
        self.processor_seconds.append((time.process_time() - processor_start) / self.steps)

    def result(self, ours: list) -> dict:
        median = statistics.median(self.seconds)
        result = dict(
            **self.name,
            tokens_per_second=round(SENTENCES * LENGTH / median),
            steps_per_second=round(1 / median, 3),
            fastest=round(1 / min(self.seconds), 3),
            slowest=round(1 / max(self.seconds), 3),
            processor_seconds=round(statistics.median(self.processor_seconds), 3),
            threads=torch.get_num_threads(),
            torch=torch.__version__,
            device=torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu",
            load=round(os.getloadavg()[0], 1),
        )
        if ours:
            ratios = [theirs / own for theirs, own in zip(self.seconds, ours)]
            result |= dict(fovea_steps_per_second=round(1 / statistics.median(ours), 3),
                           ratio=round(statistics.median(ratios), 2))
        return result


class Fovea:
    """`benchmark step`, a process of its own for each turn."""

    def __init__(self, program: str, model: str, precision: str, threads: int, device: str):
        flags = MODELS[model].flags() if task_of(model) is Translating else ["--model", model]
        self.command = [program, "step", *flags, "--precision", precision, "--threads", str(threads),
                        "--rounds", "3", "--steps", str(steps_of(model, device)), "--device", device, "--json"]
        self.seconds = []

    def turn(self) -> None:
        line = subprocess.run(self.command, check=True, capture_output=True, text=True).stdout.splitlines()[0]
        self.seconds.append(1 / json.loads(line)["steps_per_second"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="tiny,base", help=f"of {', '.join(MODELS)} (default: tiny,base)")
    parser.add_argument("--precision", default="f32", help="f32, bf16 or both, comma-separated (default: f32)")
    parser.add_argument("--repeats", type=int, default=7, help="turns of each row (default: 7)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="cpu, cuda, or cuda:N for GPU number N (default: cpu)")
    parser.add_argument("--fovea", metavar="PROGRAM", help="`benchmark`, which takes turns with PyTorch")
    parser.add_argument("--json", action="store_true", help="one JSON object a row instead of a table")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    results = []
    for model in options.models.split(","):
        generator = torch.Generator().manual_seed(7)
        batches = [task_of(model).batch(generator, model) for _ in range(8)]
        if options.device != "cpu":
            batches = [tuple(tensor.pin_memory() for tensor in batch) for batch in batches]
        layers = ["sdpa"] if task_of(model) is Translating else ["module", "sdpa"]
        for precision in options.precision.split(","):
            rows = [Row(model, layer, optimizer, precision, options.device)
                    for layer in layers for optimizer in ("Adam", "fused Adam")]
            fovea = Fovea(options.fovea, model, precision, options.threads, options.device) if options.fovea else None
            for row in rows:
                row.turn(batches)
                row.seconds.clear()
                row.processor_seconds.clear()
            for _ in range(options.repeats):
                for row in rows:
                    row.turn(batches)
                if fovea:
                    fovea.turn()
            results += [row.result(fovea.seconds if fovea else []) for row in rows]

    if options.json:
        for result in results:
            print(json.dumps(result))
        return
    columns = list(results[0])
    table = [columns] + [[str(result[column]) for column in columns] for result in results]
    widths = [max(len(line[i]) for line in table) for i in range(len(columns))]
    for line in table:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths)))


if __name__ == "__main__":
    main()
