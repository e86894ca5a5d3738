#!/usr/bin/env python3
"""Trains the tiny classifier on SST, binary, all phrases, in plain PyTorch: which accuracy the recipe reaches.

    python3 tests/reference/sst_torch.py --trees DIRECTORY [--updates 3000] [--seed 1]

DIRECTORY holds train.txt, dev.txt and test.txt, a tree in brackets a line. Every labelled phrase but the neutral ones
is a training example, each once; dev and test are whole sentences. Lower-cased words, rare ones unknown; batches of at
most 4096 positions of like lengths; Adam with inverse square root decay; the parameters best on dev are tested.
"""
import argparse
import collections
import copy
import json
import pathlib
import random
import re
import time

import torch
from torch.nn import functional

from encoder_torch import EncoderClassifier

PAD, UNKNOWN = 0, 1


def phrases(line: str):
    """(label 0-4, words) of every node of a tree such as (3 (2 It) (4 (2 's) (4 lovely))); the root is the last."""
    stack = []
    for token in re.findall(r"\(\d|[^\s()]+|\)", line):
        if token[0] == "(":
            stack.append((int(token[1]), []))
        elif token != ")":
            stack[-1][1].append(token.lower())
        else:
            label, words = stack.pop()
            if stack:
                stack[-1][1].extend(words)
            yield label, words


def examples(path: pathlib.Path, sentences_only: bool) -> list:
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        nodes = list(phrases(line))
        for label, words in nodes[-1:] if sentences_only else nodes:
            if label != 2:
                # a phrase counts once in training; a sentence that stands twice in dev or test counts twice
                found[(tuple(words), number if sentences_only else 0)] = int(label > 2)
    return [(words, label) for (words, _), label in found.items()]


def batches(data: list, positions: int, shuffle: random.Random):
    """Lists of examples of like lengths, at most `positions` each after padding, in random order."""
    data = sorted(data, key=lambda example: (len(example[0]), shuffle.random()))
    groups, group = [], []
    for example in data:
        if group and (len(group) + 1) * len(example[0]) > positions:
            groups.append(group)
            group = []
        group.append(example)
    groups.append(group)
    shuffle.shuffle(groups)
    return groups


def tensors(group: list):
    length = max(len(words) for words, _ in group)
    tokens = torch.tensor([list(words) + [PAD] * (length - len(words)) for words, _ in group])
    return tokens, torch.tensor([label for _, label in group])


@torch.no_grad()
def accuracy(model: EncoderClassifier, data: list) -> float:
    model.eval()
    right = 0
    for group in batches(data, 8192, random.Random(0)):
        tokens, labels = tensors(group)
        right += (model(tokens).argmax(1) == labels).sum().item()
    model.train()
    return right / len(data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=pathlib.Path, required=True, help="folder with train.txt, dev.txt, test.txt")
    parser.add_argument("--updates", type=int, default=3000)
    parser.add_argument("--warm-up", type=int, default=400, help="updates (default: 400)")
    parser.add_argument("--rate", type=float, default=1e-3, help="highest learning rate (default: 1e-3)")
    parser.add_argument("--minimum-count", type=int, default=2, help="rarer words of training are unknown (default: 2)")
    parser.add_argument("--layer", choices=("module", "sdpa"), default="module")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    shuffle = random.Random(options.seed)

    splits = {name: examples(options.trees / f"{name}.txt", name != "train") for name in ("train", "dev", "test")}
    # counted over sentences: in the phrases every word of a deep tree stands many times
    counts = collections.Counter(word for words, _ in examples(options.trees / "train.txt", True) for word in words)
    known = sorted(word for word, count in counts.items() if count >= options.minimum_count)
    number = {word: i + 2 for i, word in enumerate(known)}
    splits = {name: [(tuple(number.get(word, UNKNOWN) for word in words), label) for words, label in split]
              for name, split in splits.items()}
    print(json.dumps({**{name: len(split) for name, split in splits.items()}, "vocabulary": len(number) + 2}))

    model = EncoderClassifier(len(number) + 2, layer=options.layer)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.rate, betas=(0.9, 0.98), eps=1e-9)
    best, kept, update, start = 0.0, None, 0, time.perf_counter()
    while update < options.updates:
        for group in batches(splits["train"], 4096, shuffle):
            update += 1
            rate = options.rate * min(update / options.warm_up, (options.warm_up / update) ** 0.5)
            for settings in optimizer.param_groups:
                settings["lr"] = rate
            tokens, labels = tensors(group)
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(tokens), labels)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if update % 100 == 0 or update == options.updates:
                dev = accuracy(model, splits["dev"])
                if dev > best:
                    best, kept = dev, copy.deepcopy(model.state_dict())
                print(json.dumps({"update": update, "loss": round(loss.item(), 4), "dev": round(dev, 4),
                                  "seconds": round(time.perf_counter() - start)}), flush=True)
            if update == options.updates:
                break
    if kept is not None:
        model.load_state_dict(kept)
    print(json.dumps({"dev": round(best, 4), "test": round(accuracy(model, splits["test"]), 4), "seed": options.seed}))


if __name__ == "__main__":
    main()
