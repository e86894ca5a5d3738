#!/usr/bin/env python3
"""Times beam search in eager PyTorch, f32, on the CPU, with what `benchmark decode` decodes: its default Transformer.

    python3 tests/reference/decode_torch.py [--threads 2] [--beam 5] [--batch 32] [--sentences 128] [--length 20]

3 + 3 layers of 256, 4 heads, feed-forward 1024, pre-norm, one table of 8000 tokens. Keys and values are kept from step
to step (those of the source are projected once), the hypotheses of a sentence are re-ordered by index_select, and
attention is scaled_dot_product_attention: what a careful user of PyTorch writes. No sentence ends before --length.
Needs PyTorch, as fovea never does.
"""
import argparse
import json
import math
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

DIM, HEADS, HIDDEN, LAYERS, VOCABULARY = 256, 4, 1024, 3, 8000


def sinusoids(length: int) -> torch.Tensor:
    half = DIM // 2
    angles = torch.arange(length)[:, None] * torch.exp(torch.arange(half) * -(math.log(10000.0) / (half - 1)))
    return torch.cat([angles.sin(), angles.cos()], 1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.out = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)
        self.both = nn.Linear(DIM, 2 * DIM)

    def keys(self, x):  # [2, R, H, J, D]
        return self.both(x).view(*x.shape[:2], 2, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)

    def forward(self, x, keys, mask=None):
        query = self.query(x).view(*x.shape[:2], HEADS, DIM // HEADS).transpose(1, 2)
        heads = functional.scaled_dot_product_attention(query, keys[0], keys[1], attn_mask=mask)
        return self.out(heads.transpose(1, 2).reshape(x.shape))


class Layer(nn.Module):
    def __init__(self, cross: bool):
        super().__init__()
        self.attention, self.cross = Attention(), Attention() if cross else None
        self.norms = nn.ModuleList(nn.LayerNorm(DIM) for _ in range(3))
        self.inner, self.outer = nn.Linear(DIM, HIDDEN), nn.Linear(HIDDEN, DIM)

    def feed_forward(self, x):
        return x + self.outer(functional.relu(self.inner(self.norms[2](x))))

    def encode(self, x, mask):
        h = self.norms[0](x)
        return self.feed_forward(x + self.attention(h, self.attention.keys(h), mask))

    def step(self, x, prefix, source, mask):
        h = self.norms[0](x)
        new = self.attention.keys(h)
        prefix = new if prefix is None else torch.cat([prefix, new], 3)
        x = x + self.attention(h, prefix)
        x = x + self.cross(self.norms[1](x), source, mask)
        return self.feed_forward(x), prefix


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, DIM)
        nn.init.normal_(self.table.weight, std=DIM**-0.5)
        self.encoder = nn.ModuleList(Layer(False) for _ in range(LAYERS))
        self.decoder = nn.ModuleList(Layer(True) for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.LayerNorm(DIM) for _ in range(2))
        self.register_buffer("positions", sinusoids(512))

    def embed(self, tokens, begin=0):
        return self.table(tokens) * math.sqrt(DIM) + self.positions[begin : begin + tokens.shape[1]]

    def encode(self, source, mask):
        x = self.embed(source)
        for layer in self.encoder:
            x = layer.encode(x, mask)
        return self.norms[0](x)

    def step(self, tokens, position, prefixes, sources, mask):
        x = self.embed(tokens[:, None], position)
        for k, layer in enumerate(self.decoder):
            x, prefixes[k] = layer.step(x, prefixes[k], sources[k], mask)
        return functional.linear(self.norms[1](x[:, 0]), self.table.weight)


@torch.inference_mode()
def beam_search(model, source, beam, length, end=3):
    B = source.shape[0]
    mask = (source != 0)[:, None, None, :]
    states = model.encode(source, mask).repeat_interleave(beam, 0)
    mask = mask.repeat_interleave(beam, 0)
    sources = [layer.cross.keys(states) for layer in model.decoder]
    prefixes = [None] * LAYERS
    tokens = torch.full((B * beam,), 2)
    said = torch.zeros(B * beam, 0, dtype=torch.long)
    scores = torch.full((B, beam), -math.inf)
    scores[:, 0] = 0
    for position in range(length + 1):
        logp = functional.log_softmax(model.step(tokens, position, prefixes, sources, mask), -1)
        if position < length:
            logp[:, [0, 2, end]] = -math.inf
        else:  # every hypothesis ends
            return said.view(B, beam, -1), scores + logp[:, end].view(B, beam)
        total = (scores.reshape(-1, 1) + logp).view(B, -1)
        best, at = total.topk(2 * beam, 1)
        scores, at = best[:, :beam], at[:, :beam]
        parent = (torch.arange(B)[:, None] * beam + at // VOCABULARY).view(-1)
        tokens = (at % VOCABULARY).reshape(-1)
        said = torch.cat([said[parent], tokens[:, None]], 1)
        prefixes = [prefix.index_select(1, parent) for prefix in prefixes]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    for name, default in dict(beam=5, batch=32, sentences=128, length=20, rounds=5).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model = Model().eval()
    lengths = sorted(torch.randint(args.length // 2, args.length + 1, (args.sentences,)).tolist())
    batches = []
    for first in range(0, args.sentences, args.batch):
        group = lengths[first : first + args.batch]
        tokens = torch.randint(4, VOCABULARY, (len(group), group[-1]))
        tokens[torch.arange(group[-1])[None, :] >= torch.tensor(group)[:, None]] = 0
        batches.append(tokens)
    seconds = []
    for turn in range(args.rounds + 1):  # the first one warms up
        start = time.perf_counter()
        for tokens in batches:
            beam_search(model, tokens, args.beam, args.length)
        seconds.append(time.perf_counter() - start)
    per_round = statistics.median(seconds[1:])
    print(json.dumps(dict(sentences_per_second=args.sentences / per_round,
                          milliseconds_per_step=1e3 * per_round / len(batches) / (args.length + 1),
                          torch=torch.__version__)))


if __name__ == "__main__":
    main()
