#!/usr/bin/env python3
"""Compares experiments/attend with a second implementation of every method, on random cases.

    python3 tests/reference/attend_torch.py build/experiments/attend [--cases 600] [--seed 1] [--only gaussian]

The second implementation is this file: the papers' equations in PyTorch, in f64, head by head, with nothing of fovea in
it (pip install torch numpy). A case is a random specification (a method with random options, a sum of methods,
heads(...), classic(...), average(...) or concat(...) of sums and multi_head(...)), a place, shapes, lengths, masks,
allowed keys, documents, a grid, given pointers and parameters, some of which attend has to initialise. Documents that
share a row are computed here one by one, as rows of their own. `attend --precision f64 --gradients --weights` must
give the same output, weights, quantities and gradients to 1e-9, by every engine, f32 to 1e-4 and bf16 roughly. Prints
what differs, with what repeats it, then which methods, places and options no case had, and the largest differences. The
exit code is 1 if anything differed, or if attend lists a method that is not here. Building and testing fovea does not
need this file.
"""
import argparse
import json
import math
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
TYPES = {"F64": np.float64, "F32": np.float32, "I32": np.int32, "I64": np.int64, "BOOL": np.bool_, "U8": np.uint8}
CODES = {np.dtype(kind): code for code, kind in TYPES.items()}


def write_tensors(path, tensors):
    """A safetensors file: the length of a JSON header, the header, the numbers."""
    header, at = {}, 0
    arrays = {name: np.ascontiguousarray(x.detach().numpy()) for name, x in tensors.items()}
    for name, x in arrays.items():
        header[name] = {"dtype": CODES[x.dtype], "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(x.tobytes() for x in arrays.values()))


def read_tensors(path):
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header, rest = json.loads(data[8:8 + size]), data[8 + size:]
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        x = np.frombuffer(rest[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = torch.from_numpy(x.copy())
    return tensors


# ---- the equations --------------------------------------------------------------------------------------------------

def softmax(z, allowed, sink=None):
    """Over the last axis; rows with nothing allowed are zeros. `sink`: a logit, [..., 1], that takes mass."""
    top = torch.where(allowed, z, -math.inf).amax(-1, keepdim=True).detach()
    if sink is not None:
        top = torch.maximum(top, sink.detach())
    top = torch.where(torch.isinf(top), 0, top)
    e = torch.where(allowed, torch.exp(torch.where(allowed, z - top, 0)), 0)
    total = e.sum(-1, keepdim=True)
    if sink is not None:
        total = total + torch.exp(sink - top)
    return e / torch.where(total > 0, total, 1)


def sparsemax(z, allowed):
    """The point of the simplex next to z: sort, find how many keys get weight, subtract one threshold (Algorithm 1)."""
    ordered = torch.where(allowed, z, -math.inf).detach().sort(-1, descending=True).values
    k = torch.arange(1, z.shape[-1] + 1)
    positive = torch.isfinite(ordered) & (1 + k * ordered > torch.where(torch.isfinite(ordered), ordered, 0).cumsum(-1))
    count = positive.sum(-1, keepdim=True)
    least = ordered.gather(-1, (count - 1).clamp(min=0))  # the smallest logit with weight
    support = allowed & (z.detach() >= least) & (count > 0)
    z = torch.where(support, z, 0)
    return torch.where(support, z - (z.sum(-1, keepdim=True) - 1) / count.clamp(min=1), 0)


def log_sigmoid(x):
    return -torch.nn.functional.softplus(-x, threshold=1e9)


class Head:
    """What the methods add to one head."""

    def __init__(self, context, q, k, v):
        B, m, n = context.B, context.m, context.n
        self.q, self.k, self.v = q, k, v                  # [B, m, D], [B, n, D], [B, n, D_v]
        self.score, self.changes, self.density, self.sparse = None, [], False, False
        self.bias = torch.zeros(B, m, n)
        self.visible = torch.ones(B, m, n, dtype=torch.bool)  # the hard windows, which `always` is in
        self.masked = torch.ones(B, m, n, dtype=torch.bool)
        self.always = torch.zeros(B, m, n, dtype=torch.bool)
        self.windows, self.values = [], []  # functions of the weights
        self.sink, self.flexible = None, None
        self.second = None  # a second product, and the factor of its weights
        self.extra = None   # keys and values of no token, [N, D] and [N, D_v]
        self.pairless = None  # the weights of keys, from those that are seen
        self.turned = lambda x, is_query: x

    def scores(self):
        """Before they are changed."""
        return self.product() if self.score is None else self.score

    def product(self):
        return self.q @ self.k.transpose(1, 2) / math.sqrt(self.k.shape[-1])

    def logits(self, z):
        """Of these scores, [B, m, n], or [B, m, D_v, n] where there are weights for each dimension of the values."""
        z = z if z.dim() == 3 else z.transpose(2, 3)
        for change in self.changes:
            z = change(z)
        return z + (self.bias if z.dim() == 3 else self.bias[:, :, None])

    def normalized(self, z, allowed):
        """The weights of the tokens, and of the keys of no token."""
        n, N = z.shape[-1], 0
        if self.extra is not None:
            N = self.extra[0].shape[0]
            beside = self.q @ self.extra[0].T / math.sqrt(self.q.shape[-1])
            if z.dim() == 4:
                beside = beside[:, :, None].expand(*z.shape[:3], N)
            z = torch.cat([z, beside], -1)
            allowed = torch.cat([allowed, torch.ones(beside.shape, dtype=torch.bool)], -1)
        sink = self.sink if self.sink is None or z.dim() == 3 else self.sink[:, :, None]
        if self.density:
            w = torch.where(allowed, torch.exp(torch.where(allowed, z, 0)), 0)
        elif self.flexible:
            w = self.flexible(z, allowed)
        elif self.sparse:
            if sink is not None:
                z, allowed = torch.cat([z, sink.expand(*z.shape[:-1], 1)], -1), torch.cat(
                    [allowed, torch.ones(*z.shape[:-1], 1, dtype=torch.bool)], -1)
            w = sparsemax(z, allowed)
        else:
            w = softmax(z, allowed, sink)
        return w[..., :n], w[..., n:n + N]


def by_dimension(parts, D_v):
    """Where one head has weights for each dimension of the values, all have: [B, m, D_v, n]."""
    if all(x.dim() == 3 for x in parts):
        return parts
    return [x if x.dim() == 4 else x[:, :, None].expand(*x.shape[:2], D_v, x.shape[-1]) for x in parts]


def mixed(matrix, parts, heads):
    """Heads that are sums of these heads."""
    parts = list(parts)
    sums = [sum(matrix[at, g] * parts[other] for g, other in enumerate(heads)) for at in range(len(heads))]
    for at, h in enumerate(heads):
        parts[h] = sums[at]
    return parts


def attention_of(c):
    """The outputs of the heads, [B, m, D_v], and their weights."""
    heads = c.heads
    D_v = heads[0].v.shape[-1]
    allowed = [c.allowed & c.shown(h) & head.masked & (head.visible | head.always) for h, head in enumerate(heads)]
    z = [head.logits(head.scores()) for head in heads]
    second = [head.logits(head.second[0]) if head.second else x for head, x in zip(heads, z)]
    if c.mixings:
        z, second = by_dimension(z, D_v), by_dimension(second, D_v)
    z, second = zip(*(by_dimension(pair, D_v) for pair in zip(z, second)))
    allowed = [a if x.dim() == 3 else a[:, :, None].expand(x.shape) for a, x in zip(allowed, z)]
    for before, _, mixing in c.mixings:
        if before is not None:
            z = mixed(before, [torch.where(a, x, 0) for a, x in zip(allowed, z)], mixing)
            second = mixed(before, [torch.where(a, x, 0) for a, x in zip(allowed, second)], mixing)
    weights, beside = [], []
    for head, a, x, y in zip(heads, allowed, z, second):
        w, e = (head.pairless(a), None) if head.pairless else head.normalized(x, a)
        if head.second:
            w2, e2 = head.normalized(y, a)
            w, e = w + head.second[1] * w2, e + head.second[1] * e2
        for window in head.windows:  # the same for each dimension
            w = window(w) if w.dim() == 3 else torch.stack([window(x) for x in w.unbind(2)], 2)
        weights.append(w)
        beside.append(e)
    for _, after, mixing in c.mixings:
        if after is not None:
            weights, beside = mixed(after, weights, mixing), mixed(after, beside, mixing)
    outputs = []
    for h, (head, w, e) in enumerate(zip(heads, weights, beside)):
        if w.dim() == 4:
            weights[h] = w = w.transpose(2, 3)
        o = w @ head.v if w.dim() == 3 else (w * head.v[:, None]).sum(2)
        if head.extra is not None:
            v = head.extra[1]
            o = o + (e @ v if e.dim() == 3 else (e * v.T).sum(-1))
        for value in head.values:
            o = o + value(w)
        outputs.append(o)
    for finish in c.finishers:
        outputs = finish(outputs)
    return outputs, weights


class Context:
    """The inputs and the heads of one attention; methods read them and add to `heads`."""

    def __init__(self, case, parameters):
        self.case, self.parameters = case, parameters
        self.xq, self.xk, self.xv = case["query"], case["key"], case["value"]
        self.B, self.m, self.n = self.xq.shape[0], self.xq.shape[1], self.xk.shape[1]
        self.causal = case["causal"]
        lengths = case.get("lengths")
        self.lengths = torch.full((self.B,), self.n) if lengths is None else lengths
        self.i = torch.arange(self.m) + case["offset"]
        self.j = torch.arange(self.n)
        self.allowed = (self.j < self.lengths[:, None, None]).expand(self.B, self.m, self.n)
        if self.causal:
            self.allowed = self.allowed & (self.j <= self.i[:, None])
        self.seen = self.allowed.sum(-1).to(torch.get_default_dtype())  # [B, m]
        self.quantities = []
        self.prefix = ""
        # inside a combination: number of the mechanism, number of its first head, number of mechanisms and heads
        self.part = None
        self.begin([])

    def begin(self, heads):
        """The heads of one attention, to which methods add."""
        self.heads, self.activation = heads, None
        self.mixings = []    # matrices before and after the normaliser, and the heads that they mix
        self.finishers = []  # functions of the heads' outputs

    def parameter(self, name, *shape):
        return self.parameters(self.prefix + name, shape)

    def quantity(self, name, value, where=None):
        """`where`: the entries that are defined. Functions are called when the outputs are known."""
        self.quantities.append((name, value, where))

    def distance(self):
        return self.j - self.i[:, None]  # [m, n]

    def of_head(self, pairs, h, n=None):
        """[B or 1, H or 1, m or 1, n] of one head, [B, m, n]. A combination has one for all heads, one for each
        mechanism, or one for each of the heads of all mechanisms."""
        if self.part is not None and pairs.shape[1] > 1:
            mechanism, first, mechanisms, heads = self.part
            h = first + h if pairs.shape[1] == heads else mechanism
        return pairs[:, h if pairs.shape[1] > 1 else 0].expand(self.B, self.m, n or self.n)

    def shown(self, h):
        """Where the caller allows the keys of this head."""
        allowed = self.case.get("allowed")
        return torch.ones((), dtype=torch.bool) if allowed is None else self.of_head(allowed != 0, h)


def stacked(parts):
    return torch.stack(parts, 1)


# Methods: (context, options, heads: positions of those that it acts on, name: of its parameters).

def relative(c, o, heads, name):
    k = o["clip"]
    r = c.distance().clamp(-k, k) + k
    D, D_v = c.heads[heads[0]].q.shape[-1], c.heads[heads[0]].v.shape[-1]
    keys = c.parameter(f"{name}.key_table", 2 * k + 1, D)
    for h in heads:
        q = c.heads[h].q
        c.heads[h].bias = c.heads[h].bias + torch.einsum("bmd,mnd->bmn", q, keys[r]) / math.sqrt(D)
    if o["values"]:
        values = c.parameter(f"{name}.value_table", 2 * k + 1, D_v)
        for h in heads:
            c.heads[h].values.append(
                lambda w: torch.einsum("bmnd,mnd->bmd" if w.dim() == 4 else "bmn,mnd->bmd", w, values[r]))


def relative_2d(c, o, heads, name):
    k, grid = o["clip"], c.case.get("grid")
    D = c.heads[heads[0]].q.shape[-1]
    if grid is None:  # one row
        of_query, of_key = (torch.stack([torch.zeros_like(at), at], -1)[None] for at in (c.i, c.j))
    else:
        of_key = grid if grid.dim() == 3 else grid[None]  # [B or 1, n, 2]
        of_query = of_key[:, c.i]
    tables = c.parameter(f"{name}.rows", 2 * k + 1, D), c.parameter(f"{name}.columns", 2 * k + 1, D)
    for axis, table in enumerate(tables):
        r = (of_key[:, None, :, axis] - of_query[:, :, None, axis]).clamp(-k, k) + k  # [B or 1, m, n]
        near = table[r].expand(c.B, c.m, c.n, D)
        for h in heads:
            c.heads[h].bias = c.heads[h].bias + torch.einsum("bmd,bmnd->bmn", c.heads[h].q, near) / math.sqrt(D)


def gaussian(c, o, heads, name):
    d, H = c.q.shape[-1], len(heads)
    length = c.seen[:, :, None]  # [B, m, 1]
    u = c.q @ c.parameter(f"{name}.hidden.weight", d, d) + c.parameter(f"{name}.hidden.bias", d)
    if o["center_input"] == "q+ctx":
        # the unbiased attention of all heads, wherever the bias acts
        context = torch.cat([softmax(head.product(), c.allowed) @ head.v for head in c.heads], -1)
        u = u + context @ c.parameter(f"{name}.context.weight", context.shape[-1], d)
    if not o["linear"]:
        u = torch.tanh(u)
    p = torch.sigmoid(u @ c.parameter(f"{name}.center.weight", d, H) + c.parameter(f"{name}.center.bias", H))
    P = (length - 1) * p if o["center_scale"] == "last" else length * p - 1
    D = o["width"]
    if o["window"] == "query":
        z = u @ c.parameter(f"{name}.width.weight", d, H) + c.parameter(f"{name}.width.bias", H)
        D = length * torch.sigmoid(z) + o["epsilon"]
    elif o["window"] == "layer":
        # the mean of the keys that the row may see
        mean = torch.einsum("bmn,bnd->bmd", c.allowed / c.seen.clamp(min=1)[:, :, None], c.k)
        d_k = c.k.shape[-1]
        t = torch.tanh(mean @ c.parameter(f"{name}.width_hidden.weight", d_k, d) +
                       c.parameter(f"{name}.width_hidden.bias", d))
        H_d = 1 if o["shared_width"] else H
        z = t @ c.parameter(f"{name}.width.weight", d, H_d) + c.parameter(f"{name}.width.bias", H_d)
        D = length * torch.sigmoid(z) + o["epsilon"]
    elif o["window"] == "head":
        D = o["largest_width"] * torch.sigmoid(c.parameter(f"{name}.head_width", H)) + o["epsilon"]
    if o["window"] != "fixed" and o["epsilon"] == 0:
        D = D.clamp(min=1e-3)
    D = torch.as_tensor(D, dtype=P.dtype).broadcast_to(P.shape)
    for at, h in enumerate(heads):
        G = -2 * ((c.j - P[:, :, at, None]) / D[:, :, at, None]) ** 2
        c.heads[h].bias = c.heads[h].bias + G
    there = (c.seen > 0)[:, None].expand(c.B, H, c.m)
    c.quantity("center", P.transpose(1, 2), there)
    c.quantity("width", D.transpose(1, 2), there)


def one_hot(pointer):
    """The first of the largest; nothing where there is nothing."""
    largest = torch.nn.functional.one_hot(pointer.argmax(-1), pointer.shape[-1])
    return largest * (pointer.sum(-1, keepdim=True) > 0).to(pointer.dtype)


class Masses:
    """What one pointer has up to the end of each key's segment, from its start, and inside, [B, H, m, n]."""

    def __init__(self, pointer, segment):
        """`pointer`: a distribution, [B, H, m, n], or the position where all mass is, [B, H, m]."""
        if pointer.is_floating_point():
            up_to = (segment[:, None] <= segment).to(pointer.dtype)  # [i, j] = 1: i is in j's segment or before
            self.before, self.after = pointer @ up_to, pointer @ up_to.T
            self.inside = pointer @ (segment[:, None] == segment).to(pointer.dtype)
        else:  # the position's segment; there need not be a key at this position
            at, kind = pointer[..., None], torch.get_default_dtype()
            self.before, self.after, self.inside = (x.to(kind) for x in (at <= segment, at >= segment, at == segment))


def given_pointer(c, h, side):
    """What the caller gives for this head; else the first key, or the last one that the query may see."""
    pointer = c.case.get(f"{side}_pointer")
    if pointer is None:
        last = c.lengths.long()[:, None] - 1  # [B, 1]
        return torch.zeros(c.B, c.m, dtype=torch.long) if side == "left" else (
            torch.minimum(c.i, last) if c.causal else last.expand(c.B, c.m))
    if pointer.is_floating_point():
        return c.of_head(pointer, h)
    return c.of_head(pointer.long()[..., None], h, 1)[..., 0]


def window(c, o, heads, name):
    """Pointers, masses up to the end and from the start of each key's segment, and the window between them."""
    D = c.heads[heads[0]].q.shape[-1]
    d_q, d_k, d = c.xq.shape[-1], c.xk.shape[-1], D * len(heads)
    if c.classic:
        assert len(heads) == 1

    def product(side):
        q = c.xq @ c.parameter(f"{name}.{side}_query.weight", d_q, d) + c.parameter(f"{name}.{side}_query.bias", d)
        k = c.xk @ c.parameter(f"{name}.{side}_key.weight", d_k, d) + c.parameter(f"{name}.{side}_key.bias", d)
        q, k = (x.unflatten(-1, (len(heads), D)).transpose(1, 2) for x in (q, k))
        return q @ k.transpose(2, 3) / math.sqrt(D)  # [B, H, m, n]

    scale = o["pointer_scale"]
    if o["pointer_scale_by_length"]:
        scale = scale * c.seen[:, None, :, None]
    allowed = c.allowed[:, None].expand(c.B, len(heads), c.m, c.n)
    left_allowed, right_allowed = allowed, allowed
    if o["forward_only"]:
        left_allowed, right_allowed = allowed & (c.distance() <= 0), allowed & (c.distance() >= 0)
    if o["pointers"] == "given":
        left, right = (stacked([given_pointer(c, h, side) for h in heads]) for side in ("left", "right"))
    else:
        left, right = softmax(scale * product("left"), left_allowed), softmax(scale * product("right"), right_allowed)
    segment = c.j // o["segment"]
    quantities = left, right
    if o["pointers"] == "given":
        left, right = (x if x.is_floating_point() else x // o["segment"] for x in (left, right))
    elif o["mask"] == "discrete":
        left, right = one_hot(left), one_hot(right)
    left, right = Masses(left, segment), Masses(right, segment)
    first, second = left.before * right.after, right.before * left.after
    m = first + second
    if o["mask"] == "exact":
        m = m - left.inside * right.inside
    elif o["mask"] == "prob_or":
        m = m - first * second
    if o["forward_only"] or o["mask"] == "discrete":
        m = first
    if o["use"] == "additive":
        local = product("local")
    for at, h in enumerate(heads):
        if o["use"] == "additive":
            c.heads[h].bias = c.heads[h].bias + local[:, at] * m[:, at]
        elif o["renormalize"]:
            c.heads[h].windows.append(
                lambda w, at=at: w * m[:, at] / (w * m[:, at]).sum(-1, keepdim=True).clamp(min=1e-9))
        else:
            c.heads[h].windows.append(lambda w, at=at: w * m[:, at])
    if o["pointers"] == "learned":
        c.quantity("left_pointer", quantities[0])
        c.quantity("right_pointer", quantities[1])
    c.quantity("window", m, allowed)


def man(c, o, heads, name):
    for h in heads:
        M = c.of_head(c.case["mask"].to(torch.get_default_dtype()), h)
        if o["log_floor"]:
            c.heads[h].bias = c.heads[h].bias + torch.log(M.clamp(min=1e-10))
        else:
            c.heads[h].bias = c.heads[h].bias + torch.log(torch.where(M > 0, M, 1))
            c.heads[h].masked = c.heads[h].masked & (M > 0)


def add_range(c, heads, visible, interval=None):
    """A hard window, [B, m, n], of each head; and its first and last key, where it has one. `interval`: what the window
    lies in, where it has gaps."""
    for at, h in enumerate(heads):
        c.heads[h].visible = c.heads[h].visible & visible[at]
    shown = stacked(interval or visible) & c.allowed[:, None]
    c.quantity("range", ends_of(shown), shown.any(-1)[..., None])


def ends_of(shown):
    ends = shown.long().argmax(-1), shown.shape[-1] - 1 - shown.flip(-1).long().argmax(-1)
    return torch.stack(ends, -1).to(torch.get_default_dtype())


def sman(c, o, heads, name):
    b = torch.sqrt(c.seen) / 2 if o["width"] == "sqrt" else torch.full_like(c.seen, o["distance"])
    visible = c.distance().abs() <= b[:, :, None]
    add_range(c, heads, [visible] * len(heads))
    c.quantity("mask", visible[:, None].to(torch.get_default_dtype()), c.allowed[:, None])


def dman(c, o, heads, name):
    K, d = o["clip"], c.xq.shape[-1]
    left, right = c.parameter(f"{name}.left", K), c.parameter(f"{name}.right", K)
    gap = -c.distance()  # t - s
    P = torch.where(gap > 0, left[(gap - 1).clamp(0, K - 1)], 0) + torch.where(
        gap < 0, right[(-gap - 1).clamp(0, K - 1)], 0)
    x = (c.xq @ c.parameter(f"{name}.weight", d))[:, None, :, None] + P
    x = x + c.parameter(f"{name}.head", len(heads))[:, None, None]
    log_mask = log_sigmoid(x)
    if o["log_floor"]:
        log_mask = log_mask.clamp(min=math.log(1e-10))
    for at, h in enumerate(heads):
        c.heads[h].bias = c.heads[h].bias + log_mask[:, at]
    c.quantity("mask", log_mask.exp(), c.allowed[:, None].expand_as(log_mask))


def activation(c, o, heads, name):
    assert len(heads) == len(c.heads)
    c.activation = {"none": lambda x: x, "relu": torch.relu, "gelu": torch.nn.functional.gelu}[o["function"]]


def alibi(c, o, heads, name):
    H = len(heads)
    P = 2 ** (H.bit_length() - 1) if o["slopes"] == "published" else H
    slopes = [2 ** (-8 * h / P) for h in range(1, P + 1)] + [2 ** (-8 * h / (2 * P)) for h in range(1, 2 * (H - P), 2)]
    for slope, h in zip(slopes, heads):
        c.heads[h].bias = c.heads[h].bias - slope * c.distance().abs()
    c.quantity("slope", torch.tensor(slopes))


def t5(c, o, heads, name):
    buckets, after = o["buckets"], c.distance() > 0
    start = torch.zeros_like(c.distance())
    if c.causal:
        distance = (-c.distance()).clamp(min=0)
    else:
        buckets //= 2
        start = torch.where(after, buckets, 0)
        distance = c.distance().abs()
    exact = buckets // 2
    # in f32, as the published code: a logarithm that is nearly whole is whole
    far = torch.log((distance.clamp(min=1) / exact).float()) / math.log(o["max_distance"] / exact) * (buckets - exact)
    far = (exact + far.long()).clamp(max=buckets - 1)
    bucket = start + torch.where(distance < exact, distance, far)
    table = c.parameter(f"{name}.bias", o["buckets"], len(heads))
    for at, h in enumerate(heads):
        c.heads[h].bias = c.heads[h].bias + table[bucket, at]


def rotary(c, o, heads, name):
    def turned(x, at):
        D, pairs = x.shape[-1], x.shape[-1] // 2  # the last of an odd number stays
        angle = at[:, None] * o["base"] ** (-2 * torch.arange(pairs) / D)
        cos, sin, last = torch.cos(angle), torch.sin(angle), x[..., 2 * pairs:]
        if o["pairs"] == "neighbours":
            a, b = x[..., 0:2 * pairs:2], x[..., 1:2 * pairs:2]
            return torch.cat([torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2), last], -1)
        a, b = x[..., :pairs], x[..., pairs:2 * pairs]
        return torch.cat([a * cos - b * sin, a * sin + b * cos, last], -1)

    for h in heads:
        head = c.heads[h]
        head.q, head.k = turned(head.q, c.i), turned(head.k, c.j)
        head.turned = lambda x, is_query: turned(x, c.i if is_query else c.j)  # those of a second map too


def sliding(c, o, heads, name):
    step = o["dilation"]
    interval = (c.distance() >= -o["left"] * step) & (c.distance() <= o["right"] * step)
    visible = interval & (c.distance() % step == 0)
    interval, visible = ([x.expand(c.B, c.m, c.n)] * len(heads) for x in (interval, visible))
    add_range(c, heads, visible, interval)


def sinks(c, o, heads, name):
    for h in heads:
        c.heads[h].always = c.heads[h].always | (c.j < o["tokens"])
    if o["logit"]:
        logit = c.parameter(f"{name}.logit", len(heads))
        for at, h in enumerate(heads):
            c.heads[h].sink = logit[at].expand(c.B, c.m, 1)


def soft_cap(c, o, heads, name):
    for h in heads:
        c.heads[h].changes.append(lambda z: o["cap"] * torch.tanh(z / o["cap"]))


def adaptive_span(c, o, heads, name):
    z = c.parameter(f"{name}.span", len(heads))[:, None]  # [H, 1]
    if o["from_query"]:  # each query has its own, [B, H, m]
        z = z + (c.xq @ c.parameter(f"{name}.predictor", c.xq.shape[-1], len(heads))).transpose(1, 2)
    z = o["longest"] * torch.sigmoid(z)
    mask = ((o["ramp"] + z[..., None] - c.distance().abs()) / o["ramp"]).clamp(0, 1)  # [B, H, m, n]
    mask = mask.expand(c.B, len(heads), c.m, c.n)
    c.quantity("span", z if o["from_query"] else z[:, 0])
    if o["after_softmax"]:
        for at, h in enumerate(heads):
            c.heads[h].windows.append(lambda w, at=at: w * mask[:, at])
        return
    for at, h in enumerate(heads):
        c.heads[h].bias = c.heads[h].bias + torch.log(torch.where(mask[:, at] > 0, mask[:, at], 1))
    add_range(c, heads, list((mask > 0).unbind(1)))


def scored(c, heads, score):
    """`score`: of a head and its position among those that the method acts on."""
    for at, h in enumerate(heads):
        c.heads[h].score = score(c.heads[h], at)


def per_head(c, heads, name, *shape):
    """One parameter a head; without the first dimension where there is but one."""
    if len(heads) == 1:
        return c.parameter(name, *shape)[None]
    return c.parameter(name, len(heads), *shape)


def dot(c, o, heads, name):
    scored(c, heads, lambda head, at: head.q @ head.k.transpose(1, 2))


def scaled_dot(c, o, heads, name):
    scored(c, heads, lambda head, at: head.q @ head.k.transpose(1, 2) / math.sqrt(head.k.shape[-1]))


def widths(c, heads):
    head = c.heads[heads[0]]
    return head.q.shape[-1], head.k.shape[-1], head.v.shape[-1]


def general(c, o, heads, name):
    d_q, d_k, _ = widths(c, heads)
    W = per_head(c, heads, f"{name}.weight", d_q, d_k)
    scored(c, heads, lambda head, at: head.q @ W[at] @ head.k.transpose(1, 2))


def hidden_layer(c, o, heads, name):
    d_q, d_k, _ = widths(c, heads)
    a = o["hidden"] or d_q
    W, U = per_head(c, heads, f"{name}.query_projection", d_q, a), per_head(c, heads, f"{name}.key_projection", d_k, a)
    b = per_head(c, heads, f"{name}.bias", a) if o["bias"] else torch.zeros(len(heads), a)
    return a, lambda head, at: torch.tanh((head.q @ W[at])[:, :, None] + (head.k @ U[at])[:, None] + b[at])


def additive(c, o, heads, name):
    a, hidden = hidden_layer(c, o, heads, name)
    v = per_head(c, heads, f"{name}.vector", a)
    scored(c, heads, lambda head, at: hidden(head, at) @ v[at])


def fine_grained(c, o, heads, name):
    a, hidden = hidden_layer(c, o, heads, name)
    V = per_head(c, heads, f"{name}.dimensions", a, widths(c, heads)[2])
    scored(c, heads, lambda head, at: hidden(head, at) @ V[at])


def location(c, o, heads, name):
    longest = o["longest"]
    W = per_head(c, heads, f"{name}.weight", widths(c, heads)[0], longest)

    def score(head, at):
        s = head.q @ W[at]  # [B, m, longest]
        head.masked = head.masked & (c.j < longest)
        missing = torch.zeros(c.B, c.m, max(c.n - longest, 0))
        return torch.cat([s, missing], -1)[:, :, :c.n]

    scored(c, heads, score)


def mean(c, o, heads, name):
    scored(c, heads, lambda head, at: torch.zeros(c.B, c.m, c.n))


def location_weights(c, o, heads, name, exponent, normaliser):
    scale = torch.full((len(heads),), float(o["scale"]))
    if o["learned"]:
        scale = torch.nn.functional.softplus(c.parameter(f"{name}.rho", len(heads)))
    for at, h in enumerate(heads):
        c.heads[h].score = torch.zeros(c.B, c.m, c.n)
        c.heads[h].bias = c.heads[h].bias + exponent(c.distance(), scale[at]) - torch.log(normaliser(scale[at]))
        c.heads[h].density = not o["normalize"]
    c.quantity("scale", scale)
    density = torch.stack([torch.exp(exponent(c.distance(), s)) / normaliser(s) for s in scale])  # [H, m, n]
    if not o["normalize"]:
        seen = stacked([c.allowed & c.shown(h) for h in heads])
        c.quantity("density_sum", (density * seen).sum(-1))


def laplace(c, o, heads, name):
    location_weights(c, o, heads, name, lambda x, b: -x.abs() / b, lambda b: 2 * b)


def gaussian_location(c, o, heads, name):
    location_weights(c, o, heads, name, lambda x, s: -x ** 2 / (2 * s ** 2), lambda s: torch.sqrt(2 * math.pi * s * s))


def local_m(c, o, heads, name):
    p = torch.minimum(c.i.expand(c.B, c.m), c.seen - 1)
    add_range(c, heads, [(c.j - p[:, :, None]).abs() <= o["half_width"]] * len(heads))
    c.quantity("center", p[:, None], (c.seen > 0)[:, None])


def local_p(c, o, heads, name):
    d = widths(c, heads)[0]
    a, D = o["hidden"] or d, o["half_width"]
    W, v = per_head(c, heads, f"{name}.projection", d, a), per_head(c, heads, f"{name}.vector", a)
    windows, centers = [], []
    for at, h in enumerate(heads):
        g = torch.sigmoid(torch.tanh(c.heads[h].q @ W[at]) @ v[at])  # [B, m]
        p = c.seen * g if o["center_scale"] == "paper" else (c.seen - 1) * g
        middle = (torch.floor(p) if o["truncation"] == "floor" else p).detach()[:, :, None]
        windows.append((c.j - middle).abs() <= D)
        factor = torch.exp(-(c.j - p[:, :, None]) ** 2 / (2 * (D / 2) ** 2))

        def narrowed(w, factor=factor):
            w = w * factor
            if not o["renormalize"]:
                return w
            total = w.sum(-1, keepdim=True)
            return w / torch.where(total > 0, total, 1)

        c.heads[h].windows.append(narrowed)
        centers.append(p)
    add_range(c, heads, windows)
    c.quantity("center", stacked(centers), (c.seen > 0)[:, None].expand(c.B, len(heads), c.m))


def flexible(c, o, heads, name):
    d, step = widths(c, heads)[0], c.case.get("step_input")
    a = o["hidden"] or d
    W = per_head(c, heads, f"{name}.gate_projection", d + (0 if step is None else step.shape[-1]), a)
    v = per_head(c, heads, f"{name}.gate_vector", a)
    b = c.parameter(f"{name}.gate_bias", len(heads))
    gates, focuses, shown_keys = {}, {}, {}
    previous = c.case.get("previous_focus")

    def keys_of(heads):
        return stacked([shown_keys[at] for at in range(len(heads))])

    def recurrence(at, h):
        def weights(z, allowed):
            read = c.heads[h].q if step is None else torch.cat([c.heads[h].q, step], -1)
            g = torch.sigmoid(torch.tanh(read @ W[at]) @ v[at] + b[at])  # [B, m]
            if previous is not None:
                p = previous if previous.dim() == 1 else previous[:, h if previous.shape[1] == len(c.heads) else at]
            else:
                p = torch.full((c.B,), -1. if o["p_init"] == "-1" else 0.)
                if o["p_init"] == "nopen":
                    g = torch.cat([torch.zeros(c.B, 1), g[:, 1:]], 1)
            rows, focus, keys = [], [], []
            for t in range(c.m):
                if o["detach_focus"]:
                    p = p.detach()
                penalty = g[:, t, None] * (c.j - p[:, None]) ** 2 / (2 * o["sigma"] ** 2)
                seen = (c.j < c.lengths[:, None])
                if o["threshold"] != "inf":
                    near = penalty < o["threshold"]
                    nearest = torch.floor(p + 0.5).clamp(min=0).minimum(c.lengths - 1)
                    inside = (near & seen).any(-1, keepdim=True)
                    seen = seen & torch.where(inside, near, c.j == nearest[:, None])
                row = softmax(z[:, t] - penalty, allowed[:, t] & seen)
                p = row @ c.j.to(row.dtype)
                rows.append(row)
                keys.append(seen)
                focus.append(p)
            gates[at], focuses[at], shown_keys[at] = g, torch.stack(focus, 1), torch.stack(keys, 1)
            return torch.stack(rows, 1)

        return weights

    for at, h in enumerate(heads):
        c.heads[h].flexible = recurrence(at, h)
    there = (c.lengths > 0)[:, None, None].expand(c.B, len(heads), c.m)
    c.quantity("gate", lambda: stacked([gates[at] for at in range(len(heads))]), there)
    c.quantity("focus", lambda: stacked([focuses[at] for at in range(len(heads))]), there)
    c.quantity("range", lambda: ends_of(keys_of(heads)), lambda: keys_of(heads).any(-1)[..., None])


def sparse(c, o, heads, name):
    for h in heads:
        c.heads[h].sparse = True


def talking_heads(c, o, heads, name):
    before, after = (c.parameter(f"{name}.{side}", len(heads), len(heads)) if o[side] else None
                     for side in ("before", "after"))
    c.mixings.append((before, after, heads))


def differential(c, o, heads, name):
    D, D_v = c.width, widths(c, heads)[2]

    def projected(side, x):
        width = D * len(heads)
        y = x @ c.parameter(f"{name}.{side}.weight", x.shape[-1], width) + c.parameter(f"{name}.{side}.bias", width)
        return [c.heads[h].turned(part, side == "query") for h, part in zip(heads, y.chunk(len(heads), -1))]

    q, k = projected("query", c.xq), projected("key", c.xk)
    q1, k1, q2, k2 = (c.parameter(f"{name}.lambda_{x}", D) for x in ("q1", "k1", "q2", "k2"))
    first = 0.8 - 0.6 * math.exp(-0.3 * 0)
    factor = torch.exp(q1 @ k1) - torch.exp(q2 @ k2) + first
    c.quantity("lambda", factor[None])
    for at, h in enumerate(heads):
        c.heads[h].second = q[at] @ k[at].transpose(1, 2) / math.sqrt(D), -factor
    gain = c.parameter(f"{name}.gain", D_v)

    def finish(outputs):
        return [(1 - first) * gain * x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) if h in heads else x
                for h, x in enumerate(outputs)]

    c.finishers.append(finish)


def gate(c, o, heads, name):
    D_v = widths(c, heads)[2]
    opened = torch.sigmoid(c.xq @ c.parameter(f"{name}.gate.weight", c.xq.shape[-1], D_v * len(heads)))
    opened = dict(zip(heads, opened.chunk(len(heads), -1)))
    c.finishers.append(lambda outputs: [x * opened[h] if h in opened else x for h, x in enumerate(outputs)])


def grouped(c, o, heads, name):
    assert len(heads) == len(c.heads)  # where queries, keys and values are projected


def key_heads(terms, H):
    """Heads of keys and values."""
    for term in terms:
        if term.name == "grouped":
            return term.options["key_heads"] or (H // 2 if H % 2 == 0 else 1)
    return H


def forgetting(c, o, heads, name):
    x, H = c.xk, len(heads)
    gates = torch.sigmoid(x @ c.parameter(f"{name}.gate.weight", x.shape[-1], H) + c.parameter(f"{name}.gate.bias", H))
    c.quantity("forget_gate", gates.transpose(1, 2))
    l = torch.arange(c.n)
    between = (l > c.j[None, :, None]) & (l <= c.i[:, None, None])  # [m, n, l]
    for at, h in enumerate(heads):
        log_gate = log_sigmoid(torch.logit(gates[..., at]))
        c.heads[h].bias = c.heads[h].bias + torch.einsum("mnl,bl->bmn", between.to(log_gate.dtype), log_gate)


def cope(c, o, heads, name):
    longest = o["longest"]
    table = c.parameter(f"{name}.table", longest + 1, widths(c, heads)[0])
    for h in heads:
        def change(s, h=h):
            q, seen = c.heads[h].q @ table.T, c.allowed & c.shown(h)  # [B, m, longest + 1], [B, m, n]
            if s.dim() == 4:
                q, seen = q[:, :, None].expand(*s.shape[:3], longest + 1), seen[:, :, None]
            opened = torch.where(seen, torch.sigmoid(s), 0)
            p = opened.flip(-1).cumsum(-1).flip(-1).clamp(max=longest)  # from the key to the query
            low, high = torch.floor(p).detach().long(), torch.ceil(p).detach().long()
            share = p - low
            return s + (1 - share) * q.gather(-1, low) + share * q.gather(-1, high)

        c.heads[h].changes.append(change)


def persistent(c, o, heads, name):
    N, (D, _, D_v) = o["vectors"], widths(c, heads)
    keys, values = c.parameter(f"{name}.keys", len(heads), N, D), c.parameter(f"{name}.values", len(heads), N, D_v)
    for at, h in enumerate(heads):
        c.heads[h].extra = math.sqrt(D) * keys[at], math.sqrt(N) * values[at]


def light_convolution(c, o, heads, name):
    width, H = o["width"], len(heads)
    left = width - 1 if c.causal else (width - 1) // 2
    if o["dynamic"]:
        filters = (c.xq @ c.parameter(f"{name}.filter.weight", c.xq.shape[-1], H * width)).unflatten(-1, (H, width))
    else:
        filters = c.parameter(f"{name}.weight", H, width).expand(c.B, c.m, H, width)
    r = c.distance() + left  # j = i + r - left
    for at, h in enumerate(heads):
        near = torch.softmax(filters[:, :, at], -1).gather(-1, r.clamp(0, width - 1).expand(c.B, c.m, c.n))
        near = torch.where((r >= 0) & (r < width), near, 0)
        c.heads[h].pairless = lambda allowed, near=near: torch.where(allowed, near, 0)


def linear(c, o, heads, name):
    def feature(x):
        return torch.where(x > 0, x + 1, torch.exp(x.clamp(max=0)))  # elu(x) + 1

    for h in heads:
        def weights(allowed, head=c.heads[h]):
            similarity = torch.where(allowed, feature(head.q) @ feature(head.k).transpose(1, 2), 0)
            return similarity / similarity.sum(-1, keepdim=True).clamp(min=1e-9)

        c.heads[h].pairless = weights


METHODS = {"sparsemax": sparse}  # functions of this file that do not have the name of their method


# ---- their options --------------------------------------------------------------------------------------------------

def uniform(low, high):
    return lambda rng: round(rng.uniform(low, high), 3)


def one_of(*values):
    def draw(rng):
        return rng.choice(values)

    draw.values = values
    return draw


yes_or_no = one_of(False, False, True)
LOCATION_WEIGHTS = {"scale": uniform(0.4, 4), "learned": yes_or_no, "normalize": yes_or_no}
HIDDEN = {"hidden": one_of(0, 0, 1, 5), "bias": one_of(True, True, False)}
OPTIONS = {
    "global": {},
    "relative": {"clip": one_of(1, 2, 3, 16), "values": one_of(True, True, False)},
    "relative_2d": {"clip": one_of(1, 2, 3, 16)},
    "gaussian": {"window": one_of("fixed", "layer", "query", "head"), "width": uniform(0.5, 12),
                 "largest_width": uniform(1, 60), "center_scale": one_of("last", "last", "paper"),
                 "epsilon": one_of(0.1, 0.1, 0, 0.37), "center_input": one_of("query", "query", "q+ctx"),
                 "shared_width": yes_or_no, "linear": yes_or_no},
    "window": {"pointers": one_of("learned", "learned", "given"), "use": one_of("multiplicative", "additive"),
               "segment": one_of(1, 1, 2, 3, 5, 40), "renormalize": yes_or_no, "forward_only": yes_or_no,
               "mask": one_of("paper", "paper", "exact", "prob_or", "discrete"),
               "pointer_scale": one_of(1, 1, 0.3, 2.5, -1), "pointer_scale_by_length": yes_or_no},
    "man": {"log_floor": yes_or_no},
    "sman": {"width": one_of("sqrt", "fixed"), "distance": one_of(0, 1, 2, 3, 4, 50)},
    "dman": {"clip": one_of(1, 2, 4, 12, 1024), "log_floor": yes_or_no},
    "activation": {"function": one_of("none", "relu", "gelu"), "width": one_of(0, 12, 24)},
    "alibi": {},
    "t5": {"buckets": one_of(32, 32, 4, 8, 16, 18), "max_distance": one_of(128, 128, 20, 12)},
    "rotary": {"pairs": one_of("neighbours", "halves"), "base": one_of(10000, 10000, 50, 3)},
    "sliding": {"left": one_of(0, 1, 2, 3, 16), "right": one_of(0, 1, 2, 3, 16), "dilation": one_of(1, 1, 2, 3, 5)},
    "sinks": {"tokens": one_of(0, 1, 2, 4), "logit": yes_or_no},
    "soft_cap": {"cap": one_of(50, 5, 0.7)},
    "adaptive_span": {"ramp": one_of(32, 4, 2.5, 1), "longest": one_of(1024, 10, 3), "after_softmax": yes_or_no,
                      "from_query": yes_or_no},
    "dot": {}, "scaled_dot": {}, "general": {}, "additive": HIDDEN, "fine_grained": HIDDEN,
    "location": {"longest": one_of(50, 3, 6, 1)}, "mean": {},
    "laplace": LOCATION_WEIGHTS, "gaussian_location": LOCATION_WEIGHTS,
    "local_m": {"half_width": one_of(10, 0, 1, 2, 3)},
    "local_p": {"half_width": one_of(10, 1, 2, 3.5, 2.3), "hidden": one_of(0, 0, 3), "center_scale": one_of(
        "last", "last", "paper"), "truncation": one_of("floor", "exact"), "renormalize": yes_or_no},
    "flexible": {"sigma": one_of(1.5, 0.8, 4), "threshold": one_of("inf", "inf", 1.2, 0.3, 0.02),
                 "p_init": one_of("0", "-1", "nopen"), "detach_focus": yes_or_no, "hidden": one_of(0, 0, 4)},
    "sparsemax": {}, "talking_heads": {"before": one_of(True, True, False), "after": one_of(True, True, False)},
    "differential": {}, "gate": {}, "grouped": {"key_heads": one_of(0, 1, 2, 3, 4)}, "forgetting": {},
    "cope": {"longest": one_of(64, 1, 2, 3)}, "persistent": {"vectors": one_of(16, 1, 2, 5)},
    "light_convolution": {"width": one_of(7, 1, 2, 3, 4, 20), "dynamic": yes_or_no}, "linear": {},
}
DEFAULTS = {
    "relative": {"clip": 16, "values": True}, "relative_2d": {"clip": 16},
    "gaussian": {"window": "query", "width": 10, "largest_width": 50, "center_scale": "last", "epsilon": 0.1,
                 "center_input": "query", "shared_width": False},
    "window": {"pointers": "learned", "use": "multiplicative", "segment": 1, "mask": "paper", "renormalize": False,
               "forward_only": False, "pointer_scale": 1, "pointer_scale_by_length": False},
    "man": {"log_floor": False}, "sman": {"width": "sqrt", "distance": 4}, "dman": {"clip": 1024, "log_floor": False},
    "activation": {"function": "relu", "width": 0}, "t5": {"buckets": 32, "max_distance": 128},
    "rotary": {"pairs": "neighbours", "base": 10000}, "sliding": {"left": 16, "right": 16, "dilation": 1},
    "sinks": {"tokens": 4, "logit": False}, "soft_cap": {"cap": 50},
    "adaptive_span": {"ramp": 32, "longest": 1024, "after_softmax": False, "from_query": False},
    "additive": {"hidden": 0, "bias": True}, "fine_grained": {"hidden": 0, "bias": True}, "location": {"longest": 50},
    "laplace": {"scale": 1, "learned": False, "normalize": False},
    "gaussian_location": {"scale": 1, "learned": False, "normalize": False},
    "local_m": {"half_width": 10},
    "local_p": {"half_width": 10, "hidden": 0, "center_scale": "last", "truncation": "floor", "renormalize": False},
    "flexible": {"sigma": 1.5, "threshold": "inf", "p_init": "0", "detach_focus": False, "hidden": 0},
    "talking_heads": {"before": True, "after": True}, "grouped": {"key_heads": 0}, "cope": {"longest": 64},
    "persistent": {"vectors": 16}, "light_convolution": {"width": 7, "dynamic": False},
}
SCORES = ["dot", "scaled_dot", "general", "additive", "location", "mean", "laplace", "gaussian_location",
          "fine_grained"]
AROUND = ["rotary", "activation"]  # these come first: they turn the queries and keys that others read


class Term:
    """A method with its options, on some heads."""

    def __init__(self, name, options, first=None, last=None):
        self.name, self.first, self.last = name, first, last
        self.given = options
        self.options = {**DEFAULTS.get(name, {}), **options}

    def text(self):
        options = [f"{key}={str(value).lower() if isinstance(value, bool) else value}"
                   for key, value in self.given.items()]
        if self.first is not None:
            options.append(f"heads={self.first + 1}-{self.last + 1}")
        return self.name + (f"({','.join(options)})" if options else "")


def random_term(rng, name, place, projected=True):
    options = {}
    for key, draw in OPTIONS[name].items():
        if rng.random() < 0.7:
            options[key] = draw(rng)
    if name == "window":
        if options.get("use") == "additive":
            options.pop("renormalize", None)
        if place != "encoder" or options.get("mask", "paper") != "paper":
            options.pop("forward_only", None)
        if options.get("pointers") == "given":
            for learned in ("forward_only", "pointer_scale", "pointer_scale_by_length"):
                options.pop(learned, None)
    if name == "t5" and options.get("max_distance", 128) <= options.get("buckets", 32) / 2:
        options.pop("max_distance")
    if name == "activation" and not projected:
        options.pop("width", None)
    if name == "talking_heads" and options.get("before") is False and options.get("after") is False:
        options.pop("before")
    if name == "gaussian" and options.get("window", "query") != "layer":
        options.pop("shared_width", None)
    return Term(name, options)


# ---- attentions of them ---------------------------------------------------------------------------------------------

def add_terms(c, terms, heads_of):
    used = {}
    order = sorted(range(len(terms)), key=lambda at: terms[at].name not in AROUND)
    names = []
    for term in terms:
        used[term.name] = used.get(term.name, 0) + 1
        names.append(term.name if used[term.name] == 1 else f"{term.name}_{used[term.name]}")
    for at in order:
        term, heads = terms[at], heads_of[at]
        if term.name != "global" and heads:
            METHODS.get(term.name, globals().get(term.name))(c, term.options, heads, names[at])


def finish(c):
    outputs, weights = attention_of(c)
    c.quantities = [(name, *(x() if callable(x) else x for x in rest)) for name, *rest in c.quantities]
    return outputs, weights


def alike(scores, heads):
    """Where one head has scores for each dimension of the values, all have."""
    if len({s.dim() for s in scores}) == 1:
        return scores
    return [s if s.dim() == 4 else s[..., None].expand(*s.shape, heads[0].v.shape[-1]) for s in scores]


def add_scores(c, terms):
    """The quantity `scores`, which methods that set the score give; scaled_dot gives those of its heads alone."""
    names = [term.name for term in terms if term.name in SCORES]
    partial = any(term.name == "scaled_dot" for term in terms) and len(c.heads) > 1
    if names and not partial:
        scores = stacked(alike([head.scores() for head in c.heads], c.heads))
        there = c.allowed[:, None].expand(scores.shape[:4])
        there = there & stacked([head.masked for head in c.heads]) if scores.dim() == 4 else None
        c.quantities.insert(0, ("scores", scores, there))


class Projected:
    """Multi-head attention with a sum of methods. `mechanism`: the options of multi_head(...), inside a combination."""

    def __init__(self, terms, shares=None, mechanism=None):
        self.terms, self.shares, self.mechanism = terms, shares, mechanism

    def text(self):
        if self.mechanism is not None:
            options = [f"{key}={str(value).lower()}" for key, value in self.mechanism.items()]
            return f"multi_head({', '.join(['+'.join(term.text() for term in self.terms)] + options)})"
        if self.shares is None:
            return "+".join(term.text() for term in self.terms)
        texts = [(term.text(), count) for term, count in zip(self.terms, self.shares)]
        return "heads(" + ", ".join(text if count == 1 else f"{text}*{count}" for text, count in texts) + ")"

    def head_count(self, H):
        return (self.mechanism or {}).get("heads", H)

    def heads_of(self, H):
        if self.shares is not None:
            ends = np.cumsum(self.shares)
            return [list(range(end - count, end)) for end, count in zip(ends, self.shares)]
        return [list(range(H)) if term.first is None else list(range(term.first, term.last + 1))
                for term in self.terms]

    def forward(self, c):
        options = self.mechanism or {}
        H, d = self.head_count(c.case["heads"]), c.xq.shape[-1]
        width = next((t.options["width"] for t in self.terms if t.name == "activation"), 0) or d
        c.classic, c.width = False, d // H
        G = key_heads(self.terms, H)

        def projected(name, x, width):
            return x @ c.parameter(f"{name}.weight", x.shape[-1], width) + c.parameter(f"{name}.bias", width)

        c.q, c.k, v = projected("query", c.xq, d), projected("key", c.xk, d * G // H), projected(
            "value", c.xv, width * G // H)
        k, v = ([x for x in parts.chunk(G, -1) for _ in range(H // G)] for parts in (c.k, v))
        c.begin([Head(c, *parts) for parts in zip(c.q.chunk(H, -1), k, v)])
        add_terms(c, self.terms, self.heads_of(H))
        add_scores(c, self.terms)
        outputs, weights = finish(c)
        o = torch.cat(outputs, -1)
        if c.activation:
            o = c.activation(o)
        if options.get("output", True):
            o = o @ c.parameter("output.weight", width, d) + c.parameter("output.bias", d)
        return o, stacked_weights(weights)


def stacked_weights(weights):
    """[B, H, m, n], or [B, H, m, n, D] where one head has weights for each dimension of its values."""
    width = max(w.shape[-1] if w.dim() == 4 else 1 for w in weights)
    if any(w.dim() == 4 for w in weights):
        weights = [w if w.dim() == 4 else w[..., None].expand(*w.shape, width) for w in weights]
    return stacked(weights)


class Classic:
    """One head over the inputs themselves."""

    def __init__(self, terms, inside=False):
        self.terms, self.inside = terms, inside

    def text(self):
        inner = "+".join(term.text() for term in self.terms)
        return inner if self.inside else f"classic({inner})"

    def head_count(self, H):
        return 1

    def forward(self, c):
        c.classic, c.width = True, c.xq.shape[-1]
        c.q, c.k = c.xq, c.xk
        c.begin([Head(c, c.xq, c.xk, c.xv)])
        add_terms(c, self.terms, [[0]] * len(self.terms))
        add_scores(c, self.terms)
        outputs, weights = finish(c)
        o = outputs[0]
        return c.activation(o) if c.activation else o, stacked_weights(weights)


class Combined:
    """average(...) or concat(...) of mechanisms."""

    def __init__(self, kind, shares, options):
        self.kind, self.shares, self.options = kind, shares, options
        self.terms = [term for part, _ in shares for term in part.terms]

    def text(self):
        parts = [part.text() + (f"*{count}" if count > 1 else "") for part, count in self.shares]
        return f"{self.kind}({', '.join(parts + [f'{key}={str(x).lower()}' for key, x in self.options.items()])})"

    def head_count(self, H):
        return sum(part.head_count(H) * count for part, count in self.shares)

    def forward(self, c):
        mechanisms = [part for part, count in self.shares for _ in range(count)]
        K, d, split = len(mechanisms), c.xq.shape[-1], self.options.get("head_input") == "split"
        inputs = [(c.xq, c.xk, c.xv)] * K
        if split:
            projected = [x @ c.parameter(f"{name}.weight", x.shape[-1], d) + c.parameter(f"{name}.bias", d)
                         for name, x in (("query", c.xq), ("key", c.xk), ("value", c.xv))]
            inputs = list(zip(*(x.chunk(K, -1) for x in projected)))
        outputs, weights, prefix = [], [], c.prefix
        outer, counts = (c.xq, c.xk, c.xv), [part.head_count(c.case["heads"]) for part in mechanisms]
        for k, mechanism in enumerate(mechanisms):
            c.xq, c.xk, c.xv = inputs[k]
            c.part = k, sum(counts[:k]), K, sum(counts)
            c.prefix = f"{prefix}head_{k + 1}."
            known = len(c.quantities)
            before, c.quantities = c.quantities, []
            o, w = mechanism.forward(c)
            c.quantities = before + [(f"head_{k + 1}.{name}", *rest) for name, *rest in c.quantities]
            outputs.append(o)
            weights.append(w)
        c.prefix, (c.xq, c.xk, c.xv) = prefix, outer
        whole = torch.cat(weights, 1) if len({w.dim() for w in weights}) == 1 else None
        if self.kind == "average":
            return sum(outputs) / K, whole
        o = torch.cat(outputs, -1)
        if self.options.get("linear", True):
            width = self.options.get("width", 0) or c.xv.shape[-1]
            o = o @ c.parameter("output.weight", o.shape[-1], width)
        return o, whole


# ---- several documents in one row -----------------------------------------------------------------------------------

OF_PAIRS = ["scores", "left_pointer", "right_pointer", "window", "mask"]  # quantities, [B, H, m, n]
OF_KEYS_IN_ROW = ["center", "range"]  # positions of keys


def documents_of(numbers):
    """(first token, end) of each run of one number."""
    cuts = [0, *(at for at in range(1, len(numbers)) if numbers[at] != numbers[at - 1]), len(numbers)]
    return list(zip(cuts, cuts[1:]))


def document_alone(case, b, s, e):
    """The inputs of this document's tokens, in a row of its own."""
    alone = {key: value for key, value in case.items() if key != "documents"}
    for name in ("query", "key", "value"):
        alone[name] = case[name][b:b + 1, s:e]
    n = case["query"].shape[1]
    length = case["lengths"][b].item() if "lengths" in case else n
    alone["lengths"] = torch.tensor([min(max(length - s, 0), e - s)])

    def of_row(x):
        return x[b:b + 1] if x.shape[0] > 1 else x

    def of_queries(x):
        return x[:, :, s:e] if x.shape[2] > 1 else x

    for name in ("allowed", "mask", "left_pointer", "right_pointer"):
        if name in case:
            x = of_queries(of_row(case[name]))
            alone[name] = x[..., s:e] if x.dim() == 4 else x
    if "grid" in case:
        alone["grid"] = case["grid"][s:e] if case["grid"].dim() == 2 else of_row(case["grid"])[:, s:e]
    return alone


def forward_alone(attention, case, parameters):
    """Each document in a row of its own, and the results as the row of all has them."""
    B, n = case["query"].shape[:2]
    outputs, whole, quantities = [], None, []
    for b in range(B):
        row = []
        for s, e in documents_of(case["documents"][b].tolist()):
            c = Context(document_alone(case, b, s, e), parameters)
            output, weights = attention.forward(c)
            row.append(output)
            if weights is not None:
                if whole is None:
                    whole = torch.zeros(B, weights.shape[1], n, n, *weights.shape[4:])
                whole[b, :, s:e, s:e] = weights[0].detach()
            for at, (name, value, there) in enumerate(c.quantities):
                there = torch.ones((), dtype=torch.bool) if there is None else there
                there, value, kind = there.expand(value.shape), value.detach(), name.split(".")[-1]
                if value.dim() == 1:  # of the heads: the same for each document
                    if at == len(quantities):
                        quantities.append((name, value, there))
                    continue
                pairs = kind in OF_PAIRS
                if at == len(quantities):
                    shape = [B, value.shape[1], n, *([n, *value.shape[4:]] if pairs else value.shape[3:])]
                    inside = torch.full(shape, kind in ("left_pointer", "right_pointer"))
                    quantities.append((name, torch.zeros(shape), inside))
                block = (b, slice(None), slice(s, e), *([slice(s, e)] if pairs else []))
                quantities[at][1][block] = value[0] + (s if kind in OF_KEYS_IN_ROW else 0)
                quantities[at][2][block] = there[0]
        outputs.append(torch.cat(row, 1))
    return torch.cat(outputs), whole, quantities


# ---- random cases ---------------------------------------------------------------------------------------------------

CROSS_ONLY, NOT_CROSS, DECODER_ONLY = ["flexible"], ["relative", "relative_2d", "light_convolution"], [
    "forgetting", "cope"]
PAIRLESS = ["light_convolution", "linear"]
BESIDE_PAIRLESS = [*PAIRLESS, "global", "gate", "grouped", "activation", "rotary"]
WHOLE = ["activation", "grouped"]  # these act on all heads


def usable(name, place):
    return ((place == "cross" or name not in CROSS_ONLY) and (place != "cross" or name not in NOT_CROSS) and
            (place == "decoder" or name not in DECODER_ONLY))


def random_sum(rng, place, names, count, projected):
    scores = [name for name in names if name in SCORES]
    others = [name for name in names if name not in SCORES]
    chosen = rng.sample(others, min(count, len(others)))
    if rng.random() < 0.4 and scores:
        chosen[rng.randrange(len(chosen))] = rng.choice(scores)
    return [random_term(rng, name, place, projected) for name in dict.fromkeys(chosen)]


def compatible(terms, place, H):
    """Whether a sum on H heads has a meaning; attend refuses the others."""
    by = {term.name: term.options for term in terms}
    scores = [name for name in by if name in SCORES]
    densities = any(name in by and not by[name]["normalize"] for name in ("laplace", "gaussian_location"))
    has_sink = "sinks" in by and by["sinks"]["logit"]
    if len(by) < len(terms) or len(scores) > 1 or not all(usable(name, place) for name in by):
        return False
    if any(name in by for name in PAIRLESS) and (
            sum(name in by for name in PAIRLESS) > 1 or not all(name in BESIDE_PAIRLESS for name in by)):
        return False
    if "grouped" in by and H % (by["grouped"]["key_heads"] or 1) != 0:
        return False
    others = any(name in by for name in ("sparsemax", "differential", "persistent"))
    if "flexible" in by and (densities or has_sink or others or "fine_grained" in by):
        return False
    if "sparsemax" in by and densities:  # two normalisers
        return False
    # renormalised to what: the papers do not say
    if "local_p" in by and by["local_p"]["renormalize"] and (
            has_sink or densities or others or "window" in by or "adaptive_span" in by):
        return False
    return True


def random_share(rng, names, place, H):
    """heads(...) of two methods."""
    cut = rng.randrange(1, H)
    names = [name for name in names if name not in WHOLE]
    return Projected([random_term(rng, rng.choice(names), place) for _ in range(2)], [cut, H - cut])


def random_scope(rng, names, place, H):
    """A method on some of the heads."""
    term = random_term(rng, rng.choice([name for name in names if name not in WHOLE]), place)
    term.first = rng.randrange(H)
    term.last = rng.randrange(term.first, H)
    return Projected([term])


def random_mechanism(rng, names, place, H):
    """A sum inside a combination: one head over the inputs, or multi_head(...)."""
    if rng.random() < 0.5:
        while True:
            terms = [random_term(rng, rng.choice(names), place, False)]
            if compatible(terms, place, 1):
                return Classic(terms, inside=True)
    options = {key: value for key, value in (("heads", rng.choice([1, 1, 2])), ("output", False)) if rng.random() < 0.4}
    many = options.get("heads", H) > 1  # then fine_grained has weights for narrower values than beside it
    while True:
        terms = random_sum(rng, place, [name for name in names if not (many and name == "fine_grained")],
                           rng.choice([1, 1, 2]), True)
        wide = any(term.name == "activation" and term.options["width"] for term in terms)
        if compatible(terms, place, options.get("heads", H)) and not ("output" in options and wide):
            return Projected(terms, mechanism=options)


def random_combination(rng, names, place, H, d):
    """average(...) or concat(...)."""
    shares = [(random_mechanism(rng, names, place, H), rng.choice([1, 1, 2])) for _ in range(rng.choice([2, 2, 3]))]
    options, kind = {}, rng.choice(["average", "concat"])
    K = sum(count for _, count in shares)
    heads = [part.mechanism.get("heads", H) for part, _ in shares if isinstance(part, Projected)]
    if all(d % (K * h) == 0 for h in [1, *heads]) and rng.random() < 0.5:
        options["head_input"] = "split"
    if kind == "concat" and rng.random() < 0.5:
        options["width"] = rng.choice([3, 12])
    elif kind == "concat" and rng.random() < 0.3:
        options["linear"] = False
    return Combined(kind, shares, options)


def random_attention(rng, place, H, d, only):
    names = [name for name in OPTIONS if usable(name, place)]
    while True:
        kind = rng.choices(["one", "sum", "heads", "range", "classic", "combined"], [6, 5, 2, 1, 4, 3])[0]
        if kind in ("heads", "range") and H == 1:
            continue
        if kind == "one":
            attention = Projected([random_term(rng, only or rng.choice(names), place)])
        elif kind == "sum":
            attention = Projected(random_sum(rng, place, names, rng.choice([2, 2, 3]), True))
        elif kind == "range":
            attention = random_scope(rng, names, place, H)
        elif kind == "heads":
            attention = random_share(rng, names, place, H)
        elif kind == "classic":
            attention = Classic(random_sum(rng, place, names, rng.choice([1, 1, 2]), False))
        else:
            attention = random_combination(rng, names, place, H, d)
        if only and only not in [term.name for term in attention.terms]:
            continue
        if kind == "combined":
            return attention
        sums = [[x] for x in attention.terms] if kind == "heads" else [attention.terms]
        count = 1 if kind == "classic" else H
        if all(compatible(terms, place, count) for terms in sums) and not (kind == "heads" and is_refused(attention)):
            return attention


def is_refused(attention):
    """A focus that goes from query to query is the only one, beside heads that have the softmax over the tokens."""
    by = {term.name: term.options for term in attention.terms}
    return "flexible" in by and (
        all(term.name == "flexible" for term in attention.terms) or
        by.get("sinks", {}).get("logit") or any(name in by for name in ("sparsemax", "differential", "persistent")) or
        any(name in by and not by[name]["normalize"] for name in ("laplace", "gaussian_location")))


def random_inputs(rng, generator, attention, place, H, d):
    def normal(*shape):
        return torch.randn(shape, generator=generator)

    B, m, n = rng.choice([1, 2, 3]), rng.choice([1, 2, 4, 5, 7, 11]), rng.choice([1, 2, 3, 5, 6, 9, 13])
    if rng.random() < 0.06:  # several strips and blocks
        B, m, n = 1, rng.choice([30, 67, 130]), rng.choice([40, 66, 129])
    case = {"heads": H, "causal": place == "decoder", "offset": 0, "place": place, "given": {}}
    given = case["given"]
    given["query"] = normal(B, m, d)
    names = {term.name: term.options for term in attention.terms}
    projected = isinstance(attention, Projected)
    one_width = not projected and not isinstance(attention, Combined) and any(
        name in ("general", "additive", "location", "mean", "laplace", "gaussian_location", "fine_grained")
        for name in names)
    free = projected or one_width or getattr(attention, "options", {}).get("head_input") == "split"
    if place == "cross" or (place == "decoder" and rng.random() < 0.4):
        if place == "decoder":
            n = max(n, m)
        given["key"] = normal(B, n, d + 1 if free and rng.random() < 0.3 else d)
        if rng.random() < 0.4:
            same = isinstance(attention, Combined) and "head_input" not in attention.options
            given["value"] = normal(B, n, given["key"].shape[-1] + (0 if same else rng.choice([0, 3])))
    else:
        n = m
        if rng.random() < 0.15:
            given["value"] = normal(B, n, d + (3 if projected else 0))
    if rng.random() < 0.6:
        given["lengths"] = torch.tensor([rng.choice([0, 1, n, n, rng.randint(1, n)]) for _ in range(B)],
                                        dtype=rng.choice([torch.int32, torch.int64]))
    if place == "decoder":
        case["offset"] = n - m
    key_for_each = place == "decoder" and any(name in names for name in ("forgetting", "linear"))
    grid = "relative_2d" in names and rng.random() < 0.7
    if rng.random() < 0.2 and not key_for_each and not names.get("window", {}).get("forward_only"):
        case["offset"] = rng.randint(0, n) if place == "cross" else max(n - m, 0) + rng.choice([0, 0, 0 if grid else 1])
        given["query_offset"] = torch.tensor([case["offset"]])
    counts = [attention.head_count(H)]
    if isinstance(attention, Combined):
        counts.append(sum(count for _, count in attention.shares))
    if "man" in names:
        shape = [rng.choice([1, B]), rng.choice([1, *counts]), rng.choice([1, m, m]), n]
        mask = torch.rand(shape, generator=generator)
        mask[torch.rand(shape, generator=generator) < 0.25] = 0
        if rng.random() < 0.3:
            mask[torch.rand(shape, generator=generator) < 0.2] = 1e-13
        if rng.random() < 0.2:
            mask = mask > 0.3
        given["mask"] = mask
    if rng.random() < 0.25:
        shape = [rng.choice([1, B]), rng.choice([1, *counts]), rng.choice([1, m, m]), n]
        allowed = torch.rand(shape, generator=generator) > 0.25
        given["allowed"] = allowed if rng.random() < 0.7 else allowed.to(torch.uint8)
    if "flexible" in names:
        if rng.random() < 0.6:
            given["step_input"] = normal(B, m, 3)
        if case["offset"] or rng.random() < 0.5:
            by_head = projected and len(attention.terms) == 1 and rng.random() < 0.4
            given["previous_focus"] = torch.rand((B, H) if by_head and attention.terms[0].first is None else (B,),
                                                 generator=generator) * n
    if grid:
        given["grid"] = random_grid(rng, B, n)
    if place != "cross" and m == n and not case["offset"] and has_documents(attention) and rng.random() < 0.5:
        given["documents"] = random_documents(rng, B, n)
    if any(term.name == "window" and term.options["pointers"] == "given" for term in attention.terms):
        for side in ("left_pointer", "right_pointer"):
            if rng.random() < 0.85:
                shape = [rng.choice([1, B]), rng.choice([1, *counts]), rng.choice([1, m, m])]
                given[side] = random_pointer(rng, generator, given, shape, n, is_discrete(attention))
    return case


def has_documents(attention):
    """Whether it is defined for several documents in one row; attend refuses the others."""
    return not any(term.name == "location" or term.name == "window" and term.options["segment"] > 1
                   for term in attention.terms)


def random_documents(rng, B, n):
    rows = []
    for _ in range(B):
        cuts = sorted(rng.sample(range(1, n), min(rng.choice([0, 1, 2, 3, n]), n - 1)))
        numbers = rng.sample(range(-3, 200), len(cuts) + 1)
        ends = [*cuts, n]
        rows.append([numbers[sum(at >= end for end in ends)] for at in range(n)])
    return torch.tensor(rows, dtype=rng.choice([torch.int32, torch.int64]))


def random_grid(rng, B, n):
    """A picture's rows from left to right, or any cells."""
    width, rows = rng.choice([1, 2, 3, 4]), []
    for _ in range(rng.choice([1, B])):
        rows.append([[at // width, at % width] for at in range(n)] if rng.random() < 0.5 else
                    [[rng.randint(-6, 6), rng.randint(0, 300)] for _ in range(n)])
    grid = torch.tensor(rows, dtype=rng.choice([torch.int32, torch.int64]))
    return grid[0] if len(rows) == 1 and rng.random() < 0.5 else grid


def is_discrete(attention):
    """Whether given pointers must be positions."""
    return any(term.name == "window" and term.options["pointers"] == "given" and term.options["mask"] == "discrete"
               for term in attention.terms)


def random_pointer(rng, generator, given, shape, n, position):
    """A position, or a distribution over the keys."""
    if position or rng.random() < 0.5:
        if "documents" in given:
            n = min(e - s for row in given["documents"].tolist() for s, e in documents_of(row))
        return torch.randint(0, n, shape, generator=generator).to(rng.choice([torch.int32, torch.int64]))
    z = torch.randn([*shape, n], generator=generator) * rng.choice([1, 4])
    return torch.softmax(z, -1) * rng.choice([1, 1, 1, 1.7])


class Case:
    """One random case: its inputs, its file and the two results."""

    def __init__(self, seed, only=None):
        rng = random.Random(seed)
        generator = torch.Generator().manual_seed(seed)
        self.seed, self.rng, self.generator = seed, rng, generator
        place = rng.choice([place for place in ("encoder", "decoder", "cross") if not only or usable(only, place)])
        H, d = rng.choice([(1, 4), (1, 6), (2, 8), (3, 12), (4, 8), (2, 12)])
        self.attention = random_attention(rng, place, H, d, only)
        self.case = random_inputs(rng, generator, self.attention, place, H, d)
        self.place, self.method = place, self.attention.text()
        self.huge = rng.random() < 0.08
        self.known = {}
        self.forward(self.drawn)  # asks for every parameter once
        given = self.case["given"]
        for name, value in self.known.items():
            if rng.random() < 0.8:
                given[name] = value
        if rng.random() < 0.3:
            output, _, _ = self.forward(lambda name, shape: self.known[name])
            given["cotangent"] = torch.randn(output.shape, generator=generator)

    def drawn(self, name, shape):
        if name not in self.known:
            value = torch.randn(shape, generator=self.generator) * rng_scale(shape)
            if self.huge and name in ("query.weight", "key.weight"):
                value = value * 100
            self.known[name] = value
        assert self.known[name].shape == tuple(shape), (name, shape)
        return self.known[name]

    def forward(self, parameters, leaves=None):
        given = self.case["given"] if leaves is None else {**self.case["given"], **leaves}
        case = {**self.case, "query": given["query"]}
        case["key"] = given.get("key", case["query"])
        case["value"] = given.get("value", case["key"])
        for name in ("lengths", "allowed", "mask", "step_input", "previous_focus", "grid", "documents", "left_pointer",
                     "right_pointer"):
            if name in given:
                case[name] = given[name]
        if "documents" in case:
            return forward_alone(self.attention, case, parameters)
        c = Context(case, parameters)
        output, weights = self.attention.forward(c)
        return output, weights, c.quantities

    def run(self, program, folder, *flags, inputs=None):
        """`inputs`: where the numbers come from, if not those given; random ones then are the same."""
        given = self.case["given"] if inputs is None else {
            name: inputs[name] for name in (*self.case["given"], *self.known, "cotangent") if name in inputs}
        write_tensors(folder / "in.safetensors", given)
        command = [program, "--method", self.method, "--heads", str(self.case["heads"]), "--place", self.place,
                   "--in", str(folder / "in.safetensors"), "--out", str(folder / "out.safetensors"), "--gradients",
                   "--weights", "--seed", str(self.seed), *flags]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"exit {done.returncode}: {done.stderr.strip()}")
        return read_tensors(folder / "out.safetensors")

    def rest_of(self, found):
        """A gradient may be what is left of large numbers that cancel, as that of a key's bias in a softmax."""
        largest = max(x.abs().max().item() for name, x in found.items() if name.startswith("grad.") and x.numel())
        return max(0.1, largest * (1 if self.huge else 1e-2))

    def compare(self, found):
        """A line for everything that differs."""
        for name, value in self.case["given"].items():
            if name not in found or not torch.equal(found[name].to(value.dtype), value):
                yield f"{name} was given and is not written as it was"
        leaves = {}

        def leaf(name):
            if name not in leaves:
                leaves[name] = found[name].clone().requires_grad_()
            return leaves[name]

        def parameter(name, shape):
            if name not in found:
                raise RuntimeError(f"there is no parameter {name} {list(shape)}")
            if found[name].shape != tuple(shape):
                raise RuntimeError(f"{name} is {list(found[name].shape)}, expected {list(shape)}")
            return leaf(name)

        given = self.case["given"]
        inputs = {name: leaf(name) for name in ("query", "key", "value", "mask", "step_input", "previous_focus",
                                                "left_pointer", "right_pointer")
                  if name in given and given[name].is_floating_point()}
        output, weights, quantities = self.forward(parameter, inputs)
        explained = {"output", "weights", "cotangent", *given, *leaves}
        explained.add("query_offset")  # of causal attention
        yield from difference("output", found["output"], output)
        if weights is not None:
            yield from difference("weights", found["weights"], weights)
        used = {name for name in explained if name in found and name not in ("output", "weights")}
        used |= {"output", "weights"}
        for name, value, there in quantities:
            free, count = name, 2
            while free in used:
                free, count = f"{name}_{count}", count + 1
            used.add(free)
            explained.add(free)
            if free not in found:
                yield f"{free} is not written"
            else:
                yield from difference(free, found[free], value, there)
        if "scaled_dot" in self.method:
            explained |= {"scores_2"} | {name for name in found if name.split(".")[-1] == "scores"}
        objective = (output * found["cotangent"]).sum()
        gradients = torch.autograd.grad(objective, list(leaves.values()), allow_unused=True)
        least = self.rest_of(found)
        for name, gradient in zip(leaves, gradients):
            explained.add(f"grad.{name}")
            if f"grad.{name}" not in found:
                yield f"grad.{name} is not written"
                continue
            expected = torch.zeros_like(leaves[name]) if gradient is None else gradient
            yield from difference(f"grad.{name}", found[f"grad.{name}"], expected, least=least)
        yield from (f"{name} is not known here" for name in found if name not in explained)


def rng_scale(shape):
    return 0.7 if len(shape) > 1 else 0.5


LARGEST = {}  # the largest relative differences in f64, by kind of tensor


def difference(name, found, expected, there=None, tolerance=1e-9, least=0.1):
    """A line if they are further apart than `tolerance` of the largest number, or of `least`."""
    expected = expected.detach()
    try:
        found = found.to(expected.dtype).broadcast_to(expected.shape)
    except RuntimeError:
        yield f"{name} is {list(found.shape)}, expected {list(expected.shape)}"
        return
    gap = (found - expected).abs()
    gap = torch.where(torch.isfinite(gap), gap, math.inf)
    scale = expected.abs()
    if there is not None:
        there = there.broadcast_to(expected.shape)
        gap, scale = torch.where(there, gap, 0), torch.where(there, scale, 0)
    relative_gap = (gap.max() / max(scale.max().item(), least)).item() if expected.numel() else 0
    if tolerance <= 1e-9:
        kind = name if name in ("output", "weights") else "gradients" if name.startswith("grad.") else "quantities"
        LARGEST[kind] = max(LARGEST.get(kind, 0), relative_gap)
    if relative_gap > tolerance:
        at = np.unravel_index(int(gap.argmax()), expected.shape)
        yield (f"{name} {list(expected.shape)} at {[int(x) for x in at]}: {found[at].item():.12g}, "
               f"expected {expected[at].item():.12g}")


def near(reference, found, tolerance, least=0.1, gradients=True):
    """Two runs of attend."""
    for name, value in reference.items():
        if name == "output" or name == "weights" or gradients and name.startswith("grad."):
            yield from difference(name, found[name].double(), value.double(), None, tolerance, least)


def check(case, program, folder, other_precisions):
    found = case.run(program, folder, "--precision", "f64")
    yield from case.compare(found)
    for engine in ("fused", "composed", "blockwise"):
        try:
            other = case.run(program, folder, "--precision", "f64", "--engine", engine)
        except RuntimeError as error:
            if "has no form for the fused engine" in str(error) or "not in blocks" in str(error):
                continue
            raise
        yield from (f"--engine {engine}: {line}" for line in near(found, other, 1e-9, case.rest_of(found)))
    for precision, tolerance in (("f32", 1e-4), ("bf16", 0.3)) if other_precisions else ():
        rounded = case.run(program, folder, "--precision", precision, inputs=found)
        lines = near(found, rounded, tolerance, least=1, gradients=precision == "f32")
        yield from (f"--precision {precision}: {line}" for line in lines)


INPUTS = {"relative_2d": {"grid": ("integers", "absent")},
          "window": {side: ("integers", "distributions", "absent") for side in ("left_pointer", "right_pointer")}}


def kind_of_input(name, value):
    return f"{name}: {'absent' if value is None else 'distributions' if value.is_floating_point() else 'integers'}"


def tried_of(case):
    """(method, place, option=value) of a case; without an option: the method in this place, alone or with documents."""
    given = case.case["given"]
    for term in case.attention.terms:
        yield term.name, case.place, ""
        if "documents" in given:
            yield term.name, case.place, "documents"
        for name in INPUTS.get(term.name, ()):
            if term.options.get("pointers") != "learned":
                yield term.name, "", kind_of_input(name, given.get(name))
        for option, value in term.options.items():
            yield term.name, "", f"{option}={value}"


def not_tried(tried, only):
    """Methods and values of options that no case has had."""
    for name, options in OPTIONS.items():
        if only and name != only:
            continue
        for place in ("encoder", "decoder", "cross"):
            if usable(name, place) and (name, place, "") not in tried:
                yield f"{name} as {place}"
            if usable(name, place) and place != "cross" and name != "location" and (
                    name, place, "documents") not in tried:
                yield f"{name} as {place} with documents"
        for entry, kinds in INPUTS.get(name, {}).items():
            yield from (f"{name} with {entry}: {kind}" for kind in kinds if (name, "", f"{entry}: {kind}") not in tried)
        for option, draw in options.items():
            for value in dict.fromkeys(getattr(draw, "values", ())):
                if (name, "", f"{option}={value}") not in tried:
                    yield f"{name}({option}={value})"


def unknown_methods(program):
    """Methods of attend that this file does not have."""
    lines = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.splitlines()
    names = [line.split()[0] for line in lines[1:] if line and line[0].isalpha()]
    return [name for name in names if name not in [*OPTIONS, "classic", "multi_head", "average", "concat"]]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("program")
    arguments.add_argument("--cases", type=int, default=600)
    arguments.add_argument("--seed", type=int, default=1, help="of the first case")
    arguments.add_argument("--only", help="a method that every case has")
    options = arguments.parse_args()
    wrong, tried = 0, set()
    unknown = unknown_methods(options.program)
    if unknown:
        print("methods that are not known here:", ", ".join(unknown))
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seed, options.seed + options.cases):
            case = Case(seed, options.only)
            tried.update(tried_of(case))
            try:
                lines = list(check(case, options.program, pathlib.Path(folder), seed % 4 == 0 and not case.huge))
            except (RuntimeError, KeyError) as error:
                lines = [f"{type(error).__name__}: {error}"]
            if lines:
                wrong += 1
                print(f"--seed {seed} --cases 1: {case.method}, {case.place}, {case.case['heads']} heads, "
                      f"{', '.join(f'{k} {list(v.shape)}' for k, v in case.case['given'].items() if '.' not in k)}")
                for line in lines:
                    print("   ", line)
    missing = list(not_tried(tried, options.only))
    if missing:
        print("not tried:", ", ".join(missing[:20]) + (f" and {len(missing) - 20} more" if len(missing) > 20 else ""))
    print("largest differences in f64:", ", ".join(f"{kind} {gap:.1e}" for kind, gap in sorted(LARGEST.items())))
    print(f"{options.cases - wrong} of {options.cases} cases agree")
    return wrong > 0 or bool(unknown)


if __name__ == "__main__":
    sys.exit(main())
