"""Transformers of the programs in eager PyTorch: what step_torch.py trains and decode_torch.py asks.

Pre-norm, one table of tokens for source, target and output, sinusoidal positions. Queries, keys and values that are
made of one input are made by one product, and attention is scaled_dot_product_attention: what a careful user of PyTorch
writes.
"""
import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass
class Sizes:
    layers: int  # of encoder and decoder each
    dim: int
    heads: int
    hidden: int
    dropout: float = 0.3
    vocabulary: int = 8000

    def flags(self) -> list:
        """Of `benchmark step` and `benchmark decode`."""
        values = {"layers": self.layers, "model-dim": self.dim, "heads": self.heads,
                  "feed-forward-dim": self.hidden, "dropout": self.dropout, "vocabulary": self.vocabulary}
        return [f"--{name}={value}" for name, value in values.items()]


MODELS = {
    "mini": Sizes(layers=4, dim=128, heads=4, hidden=256),  # --preset mini
    "medium": Sizes(layers=3, dim=256, heads=4, hidden=1024),
}


def sinusoids(length: int, dim: int) -> torch.Tensor:
    half = dim // 2
    angles = torch.arange(length)[:, None] * torch.exp(torch.arange(half) * -(math.log(10000.0) / (half - 1)))
    return torch.cat([angles.sin(), angles.cos()], 1)


class Attention(nn.Module):
    """Over its own states (`cross` false: one product makes queries, keys and values), or over a source."""

    def __init__(self, sizes: Sizes, cross: bool):
        super().__init__()
        self.heads = sizes.heads
        self.query = nn.Linear(sizes.dim, sizes.dim) if cross else None
        self.inputs = nn.Linear(sizes.dim, (2 if cross else 3) * sizes.dim)
        self.out = nn.Linear(sizes.dim, sizes.dim)

    def split(self, x):  # [R, I, n d] -> n of [R, H, I, D]
        rows, length, width = x.shape
        dim = self.out.in_features
        return x.view(rows, length, width // dim, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)

    def forward(self, query, keys, mask=None, causal=False):
        heads = functional.scaled_dot_product_attention(query, *keys, attn_mask=mask, is_causal=causal)
        return self.out(heads.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, sizes: Sizes, cross: bool):
        super().__init__()
        self.attention = Attention(sizes, False)
        self.cross = Attention(sizes, True) if cross else None
        self.norms = nn.ModuleList(nn.LayerNorm(sizes.dim) for _ in range(3 if cross else 2))
        self.inner, self.outer = nn.Linear(sizes.dim, sizes.hidden), nn.Linear(sizes.hidden, sizes.dim)
        self.dropout = nn.Dropout(sizes.dropout)

    def feed_forward(self, x):
        return x + self.dropout(self.outer(functional.relu(self.inner(self.norms[-1](x)))))

    def forward(self, x, mask=None, causal=False, source=None, source_mask=None):
        query, *keys = self.attention.split(self.attention.inputs(self.norms[0](x)))
        x = x + self.dropout(self.attention(query, keys, mask, causal))
        if self.cross:
            query, keys = self.cross.split(self.cross.query(self.norms[1](x)))[0], self.source_keys(source)
            x = x + self.dropout(self.cross(query, keys, source_mask))
        return self.feed_forward(x)

    def source_keys(self, source):  # [2, R, H, J, D]
        return self.cross.split(self.cross.inputs(source))

    def step(self, x, prefix, source, mask):
        """One token of each hypothesis; source: source_keys()."""
        made = self.attention.split(self.attention.inputs(self.norms[0](x)))
        prefix = made[1:] if prefix is None else torch.cat([prefix, made[1:]], 3)
        x = x + self.attention(made[0], prefix)
        query = self.cross.split(self.cross.query(self.norms[1](x)))[0]
        return self.feed_forward(x + self.cross(query, source, mask)), prefix


class Transformer(nn.Module):
    def __init__(self, sizes: Sizes):
        super().__init__()
        self.table = nn.Embedding(sizes.vocabulary, sizes.dim)
        nn.init.normal_(self.table.weight, std=sizes.dim**-0.5)
        self.encoder = nn.ModuleList(Layer(sizes, False) for _ in range(sizes.layers))
        self.decoder = nn.ModuleList(Layer(sizes, True) for _ in range(sizes.layers))
        self.norms = nn.ModuleList(nn.LayerNorm(sizes.dim) for _ in range(2))
        self.dropout = nn.Dropout(sizes.dropout)
        self.register_buffer("positions", sinusoids(512, sizes.dim))

    def embed(self, tokens, begin=0):
        embedded = self.table(tokens) * math.sqrt(self.table.embedding_dim)
        return self.dropout(embedded + self.positions[begin : begin + tokens.shape[1]])

    def encode(self, source, mask):
        x = self.embed(source)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.norms[0](x)

    def logits_of(self, states):
        return functional.linear(self.norms[1](states), self.table.weight)

    def forward(self, source, target):
        """Teacher forcing: [B, T, V]. Padding is 0, on the right: behind a causal mask no word sees it."""
        mask = (source != 0)[:, None, None, :]
        states = self.encode(source, mask)
        x = self.embed(target)
        for layer in self.decoder:
            x = layer(x, causal=True, source=states, source_mask=mask)
        return self.logits_of(x)

    def step(self, tokens, position, prefixes, sources, mask):
        """The logits after one more token of each hypothesis, [R, V]."""
        x = self.embed(tokens[:, None], position)
        for k, layer in enumerate(self.decoder):
            x, prefixes[k] = layer.step(x, prefixes[k], sources[k], mask)
        return self.logits_of(x[:, 0])
