#!/usr/bin/env python3
"""Writes tests/goldens/mechanisms.json: mechanisms with projections of their own, averaged or side by side.

    python3 tests/reference/mechanisms_python.py [tests/goldens]

Watson 2019, "multi-head over arbitrary mechanisms": c = (1/K) sum_k c^k, or c = [c^1; ...; c^K] W. Each mechanism here
is multi-head attention with the equations of its papers, on lists of numbers: plain Python, no package. Self-attention
of one sentence; inputs and parameters have three decimals, results twelve digits.
"""
import json
import math
import pathlib
import random
import re
import sys

d, n = 4, 5
draws = random.Random(37)


def draw(*shape):
    if len(shape) == 1:
        return [round(draws.gauss(0, 0.8), 3) for _ in range(shape[0])]
    return [draw(*shape[1:]) for _ in range(shape[0])]


def times(x, w, b=None):
    """Rows of x times w, plus b."""
    return [[sum(a * w[k][c] for k, a in enumerate(row)) + (b[c] if b else 0) for c in range(len(w[0]))] for row in x]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def softmax(z):
    """Of {j: logit}; keys that are not there weigh nothing."""
    total = sum(math.exp(v) for v in z.values())
    return [math.exp(z[j]) / total if j in z else 0 for j in range(n)]


class Case:
    """The inputs of one combination and its parameters by name, drawn when they are first read."""

    def __init__(self, specification, heads, length, causal):
        self.specification, self.heads, self.length, self.causal = specification, heads, length, causal
        self.x, self.parameters = draw(n, d), {}

    def parameter(self, name, *shape):
        self.parameters[name] = draw(*shape)
        return self.parameters[name]

    def linear(self, name, x, width):
        return times(x, self.parameter(f"{name}.weight", len(x[0]), width), self.parameter(f"{name}.bias", width))

    def visible(self, i):
        """Query i sees the keys before this position."""
        return min(self.length, i + 1) if self.causal else self.length

    def multi_head(self, name, H, terms, output=True):
        """The outputs [n, d] and the weights of H heads. Each of `terms` is called with the projected queries and keys
        and returns three functions of query i and head h: of the logits, of the weights, and from the weights to what
        is added to the output."""
        D = d // H
        q, k, v = (self.linear(f"{name}.{part}", self.x, d) for part in ("query", "key", "value"))
        parts = [term(self, name, q, k, H) for term in terms]
        weights, rows = [[] for _ in range(H)], []
        for i in range(n):
            row = []
            for h in range(H):
                part = slice(h * D, (h + 1) * D)
                z = {j: dot(q[i][part], k[j][part]) / math.sqrt(D) for j in range(self.visible(i))}
                for logits, _, _ in parts:
                    z = logits(z, i, h)
                w = softmax(z)
                for _, window, _ in parts:
                    w = window(w, i, h)
                out = [dot(w, [v[j][c] for j in range(n)]) for c in range(h * D, (h + 1) * D)]
                for _, _, values in parts:
                    out = [a + b for a, b in zip(out, values(w, i, h))]
                weights[h].append(w)
                row += out
            rows.append(row)
        if output:
            rows = self.linear(f"{name}.output", rows, d)
        return rows, weights


def same(x, i, h):
    return x


def nothing(w, i, h):
    return [0] * d


def gaussian(c, name, q, k, H):
    """Yang et al. 2018: z - 2 ((j - P) / D)^2, P = (len - 1) sigmoid(u U_p + c), D = len sigmoid(u U_d + e) + 0.1."""
    u = [[math.tanh(a) for a in row] for row in c.linear(f"{name}.gaussian.hidden", q, d)]
    center, width = (c.linear(f"{name}.gaussian.{part}", u, H) for part in ("center", "width"))

    def logits(z, i, h):
        P, D = (c.visible(i) - 1) * sigmoid(center[i][h]), c.visible(i) * sigmoid(width[i][h]) + 0.1
        return {j: a - 2 * ((j - P) / D) ** 2 for j, a in z.items()}

    return logits, same, nothing


def relative(c, name, q, k, H, clip=2):
    """Shaw et al. 2018: q . (k_j + R^K_r) / sqrt(D), sum_j w_j (v_j + R^V_r), r = clip(j - i, -k, k) + k."""
    D = d // H
    keys, values = (c.parameter(f"{name}.relative.{part}_table", 2 * clip + 1, D) for part in ("key", "value"))

    def at(i, j):
        return max(-clip, min(clip, j - i)) + clip

    def logits(z, i, h):
        return {j: a + dot(q[i][h * D:(h + 1) * D], keys[at(i, j)]) / math.sqrt(D) for j, a in z.items()}

    return logits, same, lambda w, i, h: [sum(w[j] * values[at(i, j)][e] for j in range(n)) for e in range(D)]


def window(c, name, q, k, H):
    """Nguyen et al. 2020: w_j (F^L_j S^R_j + F^R_j S^L_j), F_j = sum_(i <= j) phi_i, S_j = sum_(i >= j) phi_i."""
    D, sides = d // H, []
    for side in ("left", "right"):
        sides.append([c.linear(f"{name}.window.{side}_{part}", c.x, d) for part in ("query", "key")])

    def windowed(w, i, h):
        part, sums = slice(h * D, (h + 1) * D), []
        for query, key in sides:
            phi = softmax({j: dot(query[i][part], key[j][part]) / math.sqrt(D) for j in range(c.visible(i))})
            sums.append(([sum(phi[:j + 1]) for j in range(n)], [sum(phi[j:]) for j in range(n)]))
        (left_f, left_s), (right_f, right_s) = sums
        return [a * (left_f[j] * right_s[j] + right_f[j] * left_s[j]) for j, a in enumerate(w)]

    return same, windowed, nothing


def dman(c, name, q, k, H, clip=2):
    """Fan et al. 2021: z + log sigmoid(x_t W + P_(t - s) + U_h), P_0 = 0, `left` for s < t."""
    W, left, right, U = (c.parameter(f"{name}.dman.{part}", size)
                         for part, size in (("weight", d), ("left", clip), ("right", clip), ("head", H)))

    def logits(z, i, h):
        def P(j):
            return 0 if j == i else (left if j < i else right)[min(abs(i - j), clip) - 1]
        return {j: a + math.log(sigmoid(dot(c.x[i], W) + P(j) + U[h])) for j, a in z.items()}

    return logits, same, nothing


def local_p(c, name, q, k, H, half_width=1.5):
    """Luong et al. 2015: keys from floor(p) - b to floor(p) + b, softmax times exp(-(j - p)^2 / (2 (b / 2)^2)),
    p = (len - 1) sigmoid(v . tanh(q W))."""
    D = d // H
    W, v = c.parameter(f"{name}.local_p.projection", H, D, D), c.parameter(f"{name}.local_p.vector", H, D)

    def p(i, h):
        hidden = [math.tanh(a) for a in times([q[i][h * D:(h + 1) * D]], W[h])[0]]
        return (c.visible(i) - 1) * sigmoid(dot(hidden, v[h]))

    def logits(z, i, h):
        middle = math.floor(p(i, h))
        return {j: a for j, a in z.items() if middle - half_width <= j <= middle + half_width}

    def windowed(w, i, h):
        return [a * math.exp(-(j - p(i, h)) ** 2 / (2 * (half_width / 2) ** 2)) for j, a in enumerate(w)]

    return logits, windowed, nothing


def classic_dot(c):
    """One head over the inputs themselves, softmax(x_i . x_j)."""
    weights = [softmax({j: dot(c.x[i], c.x[j]) for j in range(c.visible(i))}) for i in range(n)]
    return times(weights, c.x), [weights]


def average(c, mechanisms):
    outputs, weights = zip(*mechanisms)
    return [[sum(o[i][e] for o in outputs) / len(outputs) for e in range(d)] for i in range(n)], sum(weights, [])


def concat(c, mechanisms, width=d):
    outputs, weights = zip(*mechanisms)
    rows = [[a for o in outputs for a in o[i]] for i in range(n)]
    return times(rows, c.parameter("output.weight", len(rows[0]), width)), sum(weights, [])


def cases():
    c = Case("average(multi_head(global), multi_head(gaussian))", heads=2, length=4, causal=False)
    yield c, average(c, [c.multi_head("head_1", 2, []), c.multi_head("head_2", 2, [gaussian])])
    c = Case("concat(multi_head(relative(clip=2) + window), multi_head(dman(clip=2), heads=1), "
             "multi_head(local_p(half_width=1.5)))", heads=2, length=4, causal=False)
    yield c, concat(c, [c.multi_head("head_1", 2, [relative, window]), c.multi_head("head_2", 1, [dman]),
                        c.multi_head("head_3", 2, [local_p])])
    c = Case("concat(multi_head(gaussian, heads=1, output=false), multi_head(dman(clip=2), heads=4, output=false), "
             "dot, width=3)", heads=2, length=5, causal=True)
    yield c, concat(c, [c.multi_head("head_1", 1, [gaussian], False), c.multi_head("head_2", 4, [dman], False),
                        classic_dot(c)], 3)


def tensor(x):
    shape, flat = [], x
    while isinstance(flat, list):
        shape.append(len(flat))
        flat = flat[0]
    for _ in shape[1:]:
        x = [a for part in x for a in part]
    return {"shape": shape, "values": [float(f"{a:.12g}") for a in x]}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "goldens")
    rows = [{"name": c.specification, "heads": c.heads, "length": c.length, "causal": c.causal, "x": tensor(c.x),
             "parameters": {name: tensor(x) for name, x in c.parameters.items()}, "output": tensor(output),
             "weights": tensor(weights)} for c, (output, weights) in cases()]
    about = "mechanisms with projections of their own; tests/reference/mechanisms_python.py"
    text = json.dumps({"about": about, "cases": rows}, indent=1)
    for opening, closing in (("[", "]"), ("{", "}")):  # one line a tensor
        text = re.sub(rf"\{opening}\s+((\"shape\"|-?[0-9])[^{{}}]*?)\s+\{closing}",
                      lambda found: opening + " ".join(found[1].split()) + closing, text)
    (folder / "mechanisms.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
