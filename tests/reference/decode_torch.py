#!/usr/bin/env python3
"""Times beam search in eager PyTorch on the CPU, with what `benchmark decode` decodes.

    python3 tests/reference/decode_torch.py [--threads 2] [--beam 5] [--batch 32] [--sentences 128] [--length 20]
                                            [--model mini] [--bf16] [--fovea build/experiments/benchmark]

Models: mini is the preset of that name, 4 + 4 layers of 128; medium has 3 + 3 layers of 256, 4 heads, feed-forward
1024; pre-norm, one table of 8000 tokens (transformer_torch.py). Keys and values are kept from step to step (those of
the source are projected once), and the hypotheses of a sentence are re-ordered by index_select. No sentence ends before
--length. --bf16: the whole model in bfloat16, which is faster than autocast. With --fovea, `benchmark decode` of the
same model takes its turn after each of PyTorch's.
Needs PyTorch, as fovea never does.
"""
import argparse
import json
import math
import statistics
import subprocess
import time

import torch
from torch.nn import functional

from transformer_torch import MODELS, Transformer


@torch.inference_mode()
def beam_search(model, source, beam, length, end=3):
    B, vocabulary = source.shape[0], model.table.num_embeddings
    mask = (source != 0)[:, None, None, :]
    states = model.encode(source, mask)
    sources = [layer.source_keys(states).repeat_interleave(beam, 1) for layer in model.decoder]
    mask = mask.repeat_interleave(beam, 0)
    prefixes = [None] * len(sources)
    tokens = torch.full((B * beam,), 2)
    said = torch.zeros(B * beam, 0, dtype=torch.long)
    scores = torch.full((B, beam), -math.inf)
    scores[:, 0] = 0
    for position in range(length + 1):
        logp = functional.log_softmax(model.step(tokens, position, prefixes, sources, mask).float(), -1)
        if position < length:
            logp[:, [0, 2, end]] = -math.inf
        else:  # every hypothesis ends
            return said.view(B, beam, -1), scores + logp[:, end].view(B, beam)
        total = (scores.reshape(-1, 1) + logp).view(B, -1)
        best, at = total.topk(2 * beam, 1)
        scores, at = best[:, :beam], at[:, :beam]
        parent = (torch.arange(B)[:, None] * beam + at // vocabulary).view(-1)
        tokens = (at % vocabulary).reshape(-1)
        said = torch.cat([said[parent], tokens[:, None]], 1)
        prefixes = [prefix.index_select(1, parent) for prefix in prefixes]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    for name, default in dict(beam=5, batch=32, sentences=128, length=20, rounds=5).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--model", choices=MODELS, default="mini")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--fovea", metavar="PROGRAM")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model = Transformer(MODELS[args.model]).eval()
    if args.bf16:
        model.bfloat16()
    lengths = sorted(torch.randint(args.length // 2, args.length + 1, (args.sentences,)).tolist())
    batches = []
    for first in range(0, args.sentences, args.batch):
        group = lengths[first : first + args.batch]
        tokens = torch.randint(4, model.table.num_embeddings, (len(group), group[-1]))
        tokens[torch.arange(group[-1])[None, :] >= torch.tensor(group)[:, None]] = 0
        batches.append(tokens)
    ours = [args.fovea, "decode", *MODELS[args.model].flags(), "--precision", "bf16" if args.bf16 else "f32", "--json",
            *(f"--{name}={getattr(args, name)}" for name in ("threads", "beam", "batch", "sentences", "length")),
            "--rounds=2"]
    seconds, ours_per_second = [], []
    for turn in range(args.rounds + 1):  # the first one warms up
        start = time.perf_counter()
        for tokens in batches:
            beam_search(model, tokens, args.beam, args.length)
        seconds.append(time.perf_counter() - start)
        if args.fovea:
            line = subprocess.run(ours, check=True, capture_output=True, text=True).stdout
            ours_per_second.append(json.loads(line)["sentences_per_second"])
    per_round = statistics.median(seconds[1:])
    result = dict(model=args.model, bf16=args.bf16, sentences_per_second=args.sentences / per_round,
                  milliseconds_per_step=1e3 * per_round / len(batches) / (args.length + 1), torch=torch.__version__)
    if args.fovea:
        ratios = [own * theirs / args.sentences for own, theirs in zip(ours_per_second[1:], seconds[1:])]
        result |= dict(fovea_sentences_per_second=statistics.median(ours_per_second[1:]),
                       ratio=round(statistics.median(ratios), 2))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
