#!/usr/bin/env python3
"""Times a training step in eager PyTorch, f32, on the CPU: forward, backward, clipping, Adam.

    python3 tests/reference/step_torch.py [--models tiny,base] [--repeats 7] [--threads 2] [--json]

tiny: 2 layers, d 128, 4 heads, feed-forward 512.  base: 6 layers, d 512, 8 heads, feed-forward 2048.
Vocabulary 8192, 128 sentences of 16 to 32 tokens padded to 32: a batch of 4096 positions. The rows of one model take
turns, a few steps each, and the medians over the turns are reported; `processor_seconds` of a step, all threads
together, says with --threads 1 how fast it is even while other programs run. Needs PyTorch, as fovea never does.
"""
import argparse
import json
import os
import statistics
import time

import torch
from torch.nn import functional

from encoder_torch import EncoderClassifier

MODELS = {
    "tiny": dict(layers=2, dim=128, heads=4, hidden=512),
    "base": dict(layers=6, dim=512, heads=8, hidden=2048),
}
STEPS = {"tiny": 6, "base": 1}  # in one turn
VOCABULARY, SENTENCES, LENGTH = 8192, 128, 32


def batch(generator: torch.Generator):
    tokens = torch.randint(1, VOCABULARY, (SENTENCES, LENGTH), generator=generator)
    lengths = torch.randint(LENGTH // 2, LENGTH + 1, (SENTENCES, 1), generator=generator)
    tokens[torch.arange(LENGTH)[None, :] >= lengths] = 0
    return tokens, torch.randint(0, 2, (SENTENCES,), generator=generator)


class Row:
    def __init__(self, model: str, layer: str, optimizer: str):
        torch.manual_seed(1)
        self.name = dict(model=model, layer=layer, optimizer=optimizer)
        self.steps = STEPS[model]
        self.network = EncoderClassifier(VOCABULARY, layer=layer, **MODELS[model])
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-4, fused=optimizer == "fused Adam")
        self.seconds, self.processor_seconds = [], []

    def step(self, tokens: torch.Tensor, labels: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        functional.cross_entropy(self.network(tokens), labels).backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()

    def turn(self, batches) -> None:
        start, processor_start = time.perf_counter(), time.process_time()
        for i in range(self.steps):
            self.step(*batches[i % len(batches)])
        self.seconds.append((time.perf_counter() - start) / self.steps)
        self.processor_seconds.append((time.process_time() - processor_start) / self.steps)

    def result(self, real_share: float) -> dict:
        median = statistics.median(self.seconds)
        return dict(
            **self.name,
            tokens_per_second=round(SENTENCES * LENGTH / median),
            real_tokens_per_second=round(SENTENCES * LENGTH * real_share / median),
            steps_per_second=round(1 / median, 3),
            fastest=round(1 / min(self.seconds), 3),
            slowest=round(1 / max(self.seconds), 3),
            processor_seconds=round(statistics.median(self.processor_seconds), 3),
            threads=torch.get_num_threads(),
            torch=torch.__version__,
            load=os.getloadavg()[0],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="tiny,base", help="of tiny and base, comma-separated (default: both)")
    parser.add_argument("--repeats", type=int, default=7, help="turns of each row (default: 7)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="one JSON object a row instead of a table")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    generator = torch.Generator().manual_seed(7)
    batches = [batch(generator) for _ in range(8)]
    real_share = sum((tokens != 0).float().mean().item() for tokens, _ in batches) / len(batches)

    results = []
    for model in options.models.split(","):
        rows = [Row(model, layer, optimizer) for layer in ("module", "sdpa") for optimizer in ("Adam", "fused Adam")]
        for row in rows:
            row.turn(batches)
            row.seconds.clear()
            row.processor_seconds.clear()
        for _ in range(options.repeats):
            for row in rows:
                row.turn(batches)
        results += [row.result(real_share) for row in rows]

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
