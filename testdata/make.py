#!/usr/bin/env python3
"""Writes the graph, the checkpoints and the golden ranks of this folder.

The script needs only Python's standard library and shares nothing with the Go code. It computes the
score of every candidate from its definition in float64, and counts ranks one candidate at a time.
docs/checkpoint.md gives the definitions, and the files of package model give the order of
operations. Every run writes the same bytes. Functions such as sin and tanh may differ in their last
bits between C libraries, but these differences do not change a rank here. As evidence, the script
prints, for each model, the distance between the closest two different scores of a query.
"""

import json
import math
import os
import random
import struct

ENTITIES, RELATIONS = 90, 5
SPLITS = {"train": 500, "valid": 40, "test": 60}
# Dimensions. All other models have dimension 11, which is not a multiple of a register's number of entries.
DIM = {
    "mquine": 5, "mquade": 5, "rescal": 6, "quate": 3, "duale": 3, "seek": 3, "tucker": 7, "conve": 18,
    "ote": 15, "house": 15,
}
SEGMENTS = 4  # of seek
ORDER = 4  # of dihedral
RELATION_DIM, CHANNELS, IMAGE_HEIGHT = 3, 2, 6  # of tucker and conve
GROUP, LIMIT = 3, 0.5  # of ote and house
PHASE_WEIGHT, MODULUS_WEIGHT = 0.75, 1.25  # of hake
MODELS = [
    "mquine", "mquade", "transe-l1", "transe-l2", "distmult", "complex", "rotate", "protate",
    "rescal", "cp", "simple", "quate", "duale", "dihedral", "seek",
]
# Each later model has its own random generator, so the files of a new model do not change any other file.
LATER = [
    "rotate-l2", "mode", "transh-l1", "transh-l2", "transr-l1", "transr-l2", "transd-l1", "transd-l2",
    "tucker", "conve", "ote", "house", "hake", "boxe", "expressive", "expressive-functional",
]
PHASES = {"embedding_range": 1.5, "gamma": 6}
HYPER = {
    "ote": {"group": GROUP, "scale": 2, "gamma": 6},
    "house": {
        "group": GROUP, "reflections": 2, "projections": 1, "translation": 1, "projection_limit": LIMIT, "gamma": 6,
    },
    "hake": PHASES | {"phase_weight": PHASE_WEIGHT, "modulus_weight": MODULUS_WEIGHT},
    "tucker": {"relation_dim": RELATION_DIM}, "conve": {"channels": CHANNELS, "image_height": IMAGE_HEIGHT},
    "rotate": PHASES, "protate": PHASES, "rotate-l2": PHASES,
    "transr-l1": {"relation_dim": 7, "max_projection_norm": 9.5},
    "transr-l2": {"relation_dim": 13},
    "transd-l1": {"relation_dim": 13, "unit_projections": 1},
    "transd-l2": {"relation_dim": 7, "max_projection_norm": 4.5},
}
FOLDER = os.path.dirname(os.path.abspath(__file__))


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def make_graph(rng):
    """Returns the labels of entities, the labels of relations, and the triples of each split.

    The triples form cliques with some noise, so queries have several answers.
    """
    labels = [f"place/{i:02d}" + (" 中" if i % 7 == 0 else "") for i in range(ENTITIES)]
    seen, triples = set(), []
    while len(triples) < sum(SPLITS.values()):
        r = rng.randrange(RELATIONS)
        h = rng.randrange(ENTITIES)
        t = rng.randrange(ENTITIES) if rng.random() < 0.3 else (h // (r + 3) * (r + 3) + rng.randrange(r + 3)) % ENTITIES
        if (h, r, t) not in seen:
            seen.add((h, r, t))
            triples.append((h, r, t))
    splits, at = {}, 0
    for name, n in SPLITS.items():
        splits[name] = triples[at:at + n]
        at += n
    return labels, [f"relation_{r}" for r in range(RELATIONS)], splits


def norm_shapes(name, n):
    return [(f"{name}.{part}", [n]) for part in ("scale", "shift", "mean", "variance")]


def shapes(model, d):
    e, r = ENTITIES, RELATIONS
    k = HYPER.get(model, {}).get("relation_dim", d)
    maps = CHANNELS * (2 * IMAGE_HEIGHT - 2) * (d // IMAGE_HEIGHT - 2)
    return {
        "mquine": [("entity", [e, d * (d + 1) // 2])] + [(f"relation.{n}", [r, d, d]) for n in ("head", "tail", "cross")],
        "mquade": [("entity", [e, d * (d + 1) // 2])] + [(f"relation.{n}", [r, d, d]) for n in ("head", "tail")],
        "transe-l1": [("entity", [e, d]), ("relation", [r, d])],
        "transe-l2": [("entity", [e, d]), ("relation", [r, d])],
        "distmult": [("entity", [e, d]), ("relation", [r, d])],
        "complex": [("entity", [e, 2 * d]), ("relation", [r, 2 * d])],
        "rotate": [("entity", [e, 2 * d]), ("relation", [r, d])],
        "rotate-l2": [("entity", [e, 2 * d]), ("relation", [r, d])],
        "mode": [("entity", [e, d]), ("relation", [r, d])],
        "protate": [("entity", [e, d]), ("relation", [r, d])],
        "rescal": [("entity", [e, d]), ("relation", [r, d, d])],
        "cp": [("entity", [e, 2 * d]), ("relation", [r, d])],
        "simple": [("entity", [e, 2 * d]), ("relation", [r, 2 * d])],
        "quate": [("entity", [e, 4 * d]), ("relation", [r, 4 * d])],
        "duale": [("entity", [e, 8 * d]), ("relation", [r, 8 * d])],
        "dihedral": [("entity", [e, 2 * d]), ("relation", [r, d, 2 * ORDER])],
        "seek": [("entity", [e, SEGMENTS * d]), ("relation", [r, SEGMENTS * d])],
        "transh": [("entity", [e, d]), ("relation", [r, d]), ("relation.normal", [r, d])],
        "transr": [("entity", [e, d]), ("relation", [r, k]), ("relation.projection", [r, d, k])],
        "transd": [("entity", [e, 2, d]), ("relation", [r, k]), ("relation.projection", [r, k])],
        "tucker": [("entity", [e, d]), ("relation", [r, RELATION_DIM]), ("core", [RELATION_DIM, d, d])]
        + norm_shapes("norm0", d) + norm_shapes("norm1", d),
        "conve": [("entity", [e, d + 1]), ("relation", [r, d])] + norm_shapes("norm0", 1)
        + [("filters", [CHANNELS, 3, 3]), ("filters.bias", [CHANNELS])] + norm_shapes("norm1", CHANNELS)
        + [("dense", [d, maps]), ("dense.bias", [d])] + norm_shapes("norm2", d),
        "ote": [("entity", [e, d]), ("relation", [r, d // GROUP, GROUP, GROUP + 1])],
        # Two reflections, and one projection of each entity.
        "house": [("entity", [e, d]), ("relation", [r, d // GROUP, 4 * GROUP]), ("translation", [r, d])] + [
            (f"{side}_{name}", [r] + row) for side in ("head", "tail")
            for name, row in (("direction", [1]), ("scale", [d // GROUP, 1]))],
        "hake": [("entity", [e, 2 * d]), ("relation", [r, 3 * d])],
        "boxe": [("entity", [e, 2 * d]), ("relation", [r, 4 * d + 2])],
        "expressive": [("entity", [e, d]), ("relation", [r, 6 * d])],
        "expressive-functional": [("entity", [e, d]), ("relation", [r, 4 * d])],
    }[model[:6] if model[:6] in ("transh", "transr", "transd") else model]


def make_tensors(rng, model, d):
    tensors = []
    for name, dims in shapes(model, d):
        row = math.prod(dims[1:])
        rows = [[float32(rng.gauss(0, 1)) for _ in range(row)] for _ in range(dims[0])]
        if name.endswith(".variance"):
            rows = [[abs(v) for v in row] for row in rows]
        if name == "entity":
            # Two copies tie exactly, only float64 distinguishes a near copy, and one entity is zero.
            rows[11], rows[50] = list(rows[10]), list(rows[10])
            rows[21] = [float32(v * (1 + 2.0**-20)) for v in rows[20]]
            rows[33] = [0.0] * row
        tensors.append(rows)
    return tensors


def symmetric(row, d):
    m, at = [[0.0] * d for _ in range(d)], 0
    for i in range(d):
        for j in range(i + 1):
            m[i][j] = m[j][i] = row[at] if i != j else 2 * row[at]
            at += 1
    return m


def product(a, b):
    d = len(a)
    out = [[0.0] * d for _ in range(d)]
    for i in range(d):
        for j in range(d):
            for k in range(d):
                out[i][j] += a[i][k] * b[k][j]
    return out


def score_matrices(h, r, t, d):
    H, T = symmetric(h, d), symmetric(t, d)
    matrices = [[m[i * d:(i + 1) * d] for i in range(d)] for m in r]
    P, Q = product(H, matrices[0]), product(matrices[1], T)
    X = product(product(H, matrices[2]), T) if len(matrices) == 3 else [[0.0] * d] * d
    total = 0.0
    for j in range(d):
        column = 0.0
        for i in range(d):
            v = (P[i][j] - Q[i][j]) + X[i][j]
            column += v * v
        total += column
    return -total


def score_translation(h, r, t, norm):
    total = 0.0
    for a, b, c in zip(h, r[0], t):
        v = (a + b) - c
        total += abs(v) if norm == 1 else v * v
    return -total


def score_distmult(h, r, t):
    total = 0.0
    for a, b, c in zip(h, r[0], t):
        total += (a * b) * c
    return total


def score_complex(h, r, t, k):
    total, r = 0.0, r[0]
    for i in range(k):
        re = h[i] * r[i] - h[k + i] * r[k + i]
        im = h[i] * r[k + i] + h[k + i] * r[i]
        total += re * t[i] + im * t[k + i]
    return total


def score_rotate(h, r, t, k, unit):
    total = 0.0
    for i in range(k):
        c, s = math.cos(r[0][i] * unit), math.sin(r[0][i] * unit)
        re = (h[i] * c - h[k + i] * s) - t[i]
        im = (h[i] * s + h[k + i] * c) - t[k + i]
        total += math.sqrt(re * re + im * im)
    return -total


def score_rotate_l2(h, r, t, k, unit):
    total = 0.0
    for i in range(k):
        c, s = math.cos(r[0][i] * unit), math.sin(r[0][i] * unit)
        re = (h[i] * c - h[k + i] * s) - t[i]
        im = (h[i] * s + h[k + i] * c) - t[k + i]
        total += re * re + im * im
    return -total


def dot(x, y):
    total = 0.0
    for a, b in zip(x, y):
        total += a * b
    return total


def image(model, d, e, r):
    """Returns the image of an entity in the space of a relation, with the model's bound."""
    if model.startswith("transh"):
        along = dot(r[1], e)
        x = [v - along * w for v, w in zip(e, r[1])]
    elif model.startswith("transr"):
        k = len(r[0])
        x = [dot(e, r[1][j::k]) for j in range(k)]
    else:
        along = dot(e[d:], e[:d])
        x = [(e[j] if j < d else 0.0) + along * v for j, v in enumerate(r[1])]
    hyper = HYPER.get(model, {})
    if hyper.get("unit_projections"):
        length = max(math.sqrt(dot(x, x)), 1e-12)
        x = [v / length for v in x]
    limit = hyper.get("max_projection_norm", math.inf)
    length = sum_of(abs(v) for v in x) if model.endswith("l1") else math.sqrt(dot(x, x))
    return [v * (limit / length) for v in x] if length > limit else x


def sum_of(terms):
    total = 0.0  # unlike sum, which compensates since Python 3.12
    for v in terms:
        total += v
    return total


def score_projection(model, d, h, r, t):
    return score_translation(image(model, d, h, r), r, image(model, d, t, r), 1 if model.endswith("l1") else 2)


def score_protate(h, r, t, unit):
    total = 0.0
    for a, b, c in zip(h, r[0], t):
        sh, ch, sr, cr, st, ct = (f(v * unit) for v in (a, b, c) for f in (math.sin, math.cos))
        x, y = sh * cr + ch * sr, ch * cr - sh * sr
        total += abs(x * ct - y * st)
    return -total


def score_rescal(h, r, t, d):
    total = 0.0
    for j in range(d):
        u = 0.0
        for i in range(d):
            u += h[i] * r[0][i * d + j]
        total += u * t[j]
    return total


def score_cp(h, r, t, d):
    total = 0.0
    for i in range(d):
        total += (h[i] * r[0][i]) * t[d + i]
    return total


def score_simple(h, r, t, d):
    total = 0.0
    for i in range(d):
        total += (h[i] * r[0][i]) * t[d + i] + (t[i] * r[0][d + i]) * h[d + i]
    return total / 2


def parts(row, k, i):
    return [row[c * k + i] for c in range(4)]


def inner(a, b):
    return ((a[0] * b[0] + a[1] * b[1]) + a[2] * b[2]) + a[3] * b[3]


def hamilton(a, b):
    return [
        ((a[0] * b[0] - a[1] * b[1]) - a[2] * b[2]) - a[3] * b[3],
        ((a[0] * b[1] + a[1] * b[0]) + a[2] * b[3]) - a[3] * b[2],
        ((a[0] * b[2] - a[1] * b[3]) + a[2] * b[0]) + a[3] * b[1],
        ((a[0] * b[3] + a[1] * b[2]) - a[2] * b[1]) + a[3] * b[0],
    ]


def score_quate(h, r, t, k):
    total = 0.0
    for i in range(k):
        x = parts(r[0], k, i)
        length = math.sqrt(inner(x, x))
        total += inner(hamilton(parts(h, k, i), [v / length for v in x]), parts(t, k, i))
    return total


def score_duale(h, r, t, k):
    total, half = 0.0, 4 * k
    for i in range(k):
        ra, rb = parts(r[0], k, i), parts(r[0][half:], k, i)
        length, kappa = math.sqrt(inner(ra, ra)), inner(rb, ra) / inner(ra, ra)
        c, d = [v / length for v in ra], [w - kappa * v for v, w in zip(ra, rb)]
        ha, hb = parts(h, k, i), parts(h[half:], k, i)
        y = [p + q for p, q in zip(hamilton(ha, d), hamilton(hb, c))]
        total += inner(hamilton(ha, c), parts(t, k, i)) + inner(y, parts(t[half:], k, i))
    return total


def score_dihedral(h, r, t, k):
    total = 0.0
    for i in range(k):
        weights = r[0][i * 2 * ORDER:(i + 1) * 2 * ORDER]
        m = weights.index(max(weights))
        c, s = [(1, 0), (0, 1), (-1, 0), (0, -1)][m % ORDER]  # cosine and sine of quarter turns
        a, b, e, f = (c, -s, s, c) if m < ORDER else (c, s, s, -c)
        u, v = h[i] * a + h[k + i] * e, h[i] * b + h[k + i] * f
        total += u * t[i] + v * t[k + i]
    return total


def score_seek(h, r, t, d):
    total = 0.0
    for w in range(SEGMENTS):
        for i in range(d):
            q = (r[0][i] + r[0][2 * d + i]) * h[w * d + i]
            for x in (1, 3):
                y = (w - x) % SEGMENTS
                sign = -1 if x + y >= SEGMENTS else 1
                q += sign * r[0][x * d + i] * h[y * d + i]
            total += q * t[w * d + i]
    return total


def norm(tensors, name, channel, x):
    """Applies a batch normalisation. If the model does not have it, returns x unchanged."""
    if name + ".scale" not in tensors:
        return x
    scale, shift, mean, variance = (tensors[f"{name}.{part}"][channel][0] for part in ("scale", "shift", "mean", "variance"))
    factor = scale / math.sqrt(variance + 1e-5)
    return factor * x + (shift - factor * mean)


def score_tucker(h, r, t, d, tensors, matrices):
    """Returns a score. The argument matrices keeps the matrix of each relation for later calls."""
    key = tuple(r[0])
    if key not in matrices:
        matrices[key] = [[sum(v * tensors["core"][j][i * d + k] for j, v in enumerate(key)) for k in range(d)] for i in range(d)]
    x = [norm(tensors, "norm0", i, v) for i, v in enumerate(h)]
    total = 0.0
    for k in range(d):
        y = sum(x[i] * matrices[key][i][k] for i in range(d))
        total += norm(tensors, "norm1", k, y) * t[k]
    return total


def score_conve(h, r, t, d, tensors, outputs):
    """Returns a score. The argument outputs keeps the network's output for each head and relation."""
    key = (tuple(h), tuple(r[0]))
    if key not in outputs:
        width, height = d // IMAGE_HEIGHT, 2 * IMAGE_HEIGHT
        image = [norm(tensors, "norm0", 0, v) for v in h[1:] + r[0]]
        maps = []
        for c in range(CHANNELS):
            for y in range(height - 2):
                for x in range(width - 2):
                    v = tensors["filters.bias"][c][0]
                    for i in range(3):
                        for j in range(3):
                            v += tensors["filters"][c][3 * i + j] * image[(y + i) * width + x + j]
                    maps.append(max(0.0, norm(tensors, "norm1", c, v)))
        out = []
        for k in range(d):
            v = tensors["dense.bias"][k][0]
            for w, x in zip(tensors["dense"][k], maps):
                v += w * x
            out.append(max(0.0, norm(tensors, "norm2", k, v)))
        outputs[key] = out
    total = t[0]
    for x, v in zip(outputs[key], t[1:]):
        total += x * v
    return total


def dot(x, y):
    total = 0.0
    for a, b in zip(x, y):
        total += a * b
    return total


def length(x):
    return math.sqrt(dot(x, x))


def orthonormal(rows):
    """Returns the rows after the Gram–Schmidt process. A row that becomes zero remains zero."""
    result = []
    for row in rows:
        for u in result:
            c = dot(row, u)
            row = [a - c * b for a, b in zip(row, u)]
        n = length(row)
        result.append([v / n for v in row] if n else row)
    return result


def score_ote(h, r, t, side):
    """Returns minus the distance between the transformed anchor and the candidate, with exponential scales."""
    anchor, candidate = (h, t) if side == "tail" else (t, h)
    total = 0.0
    for g in range(0, len(h), GROUP):
        rows = [r[0][(g + i) * (GROUP + 1):(g + i + 1) * (GROUP + 1)] for i in range(GROUP)]
        u = orthonormal([row[:GROUP] for row in rows])
        sign = 1 if side == "tail" else -1
        x = [a * math.exp(sign * row[GROUP]) for a, row in zip(anchor[g:g + GROUP], rows)]
        q = [dot(x, column) for column in zip(*u)] if side == "tail" else [dot(x, row) for row in u]
        total += length([a - b for a, b in zip(q, candidate[g:g + GROUP])])
    return -total


def reflect(x, u, k):
    c = k * dot(u, x)
    return [a - c * b for a, b in zip(x, u)]


def score_house(h, r, t):
    vectors, w, head_direction, head_scale, tail_direction, tail_scale = r
    total = 0.0
    for g in range(0, len(h), GROUP):
        at = g * 4
        us = []
        for i in range(4):
            v = vectors[at + i * GROUP:at + (i + 1) * GROUP]
            n = length(v)
            us.append([a / n for a in v] if n else v)
        x, y = h[g:g + GROUP], t[g:g + GROUP]
        x = reflect(x, us[3], min(head_direction[0] * abs(head_scale[g // GROUP]), LIMIT))
        y = reflect(y, us[0], min(tail_direction[0] * abs(tail_scale[g // GROUP]), LIMIT))
        x = [a + b for a, b in zip(x, w[g:g + GROUP])]
        x = reflect(reflect(x, us[2], 2), us[1], 2)
        total += length([a - b for a, b in zip(x, y)])
    return -total


def score_hake(h, r, t, k, unit):
    phases, squares, row = 0.0, 0.0, r[0]
    for i in range(k):
        sh, ch, sr, cr, st, ct = (f(v * unit) for v in (h[i], row[i], t[i]) for f in (math.sin, math.cos))
        x, y = sh * cr + ch * sr, ch * cr - sh * sr
        phases += abs(x * ct - y * st)
        modulus = abs(row[k + i])
        bias = max(min(row[2 * k + i], 1), -modulus)
        v = h[k + i] * (modulus + bias) - t[k + i] * (1 - bias)
        squares += v * v
    return -(PHASE_WEIGHT * phases + MODULUS_WEIGHT * math.sqrt(squares))


def score_boxe(h, r, t, d):
    row, total = r[0], 0.0
    for box, (position, bump) in enumerate(((h[:d], t[d:]), (t[:d], h[d:]))):
        centre, shape = row[2 * box * d:][:d], row[(2 * box + 1) * d:][:d]
        size = row[4 * d + box]
        mean = math.exp(sum(math.log(max(abs(s), 2.0**-23)) for s in shape) / d)
        factor = size + 1 if size > 0 else math.exp(size)
        squares = 0.0
        for x, b, c, s in zip(position, bump, centre, shape):
            half = abs(s / mean * factor) / 2
            lower, upper = math.tanh(c - half), math.tanh(c + half)
            width, p = upper - lower, math.tanh(x + b)
            distance = abs(p - (lower + upper) / 2)
            if lower <= p <= upper:
                distance = distance / (width + 1)
            else:
                distance = distance * (width + 1) - width / 2 * (width + 1 - 1 / (width + 1))
            squares += distance * distance
        total += math.sqrt(squares)
    return -total


def score_expressive(h, r, t, d, functional):
    row = r[0]
    widths = [0.0] * (2 * d) if functional else [math.tanh(abs(v)) for v in row[:2 * d]]
    row = row if functional else row[2 * d:]
    distances = []
    for i in range(d):
        x, y, ch, ct = math.tanh(h[i]), math.tanh(t[i]), math.tanh(row[i]), math.tanh(row[d + i])
        sh, st = row[2 * d + i], row[3 * d + i]
        if not functional:
            st += 1e-4 if st >= 0 else -1e-4
            denominator = 1 - sh * st
            if abs(denominator) < 0.5:
                sh += (denominator - (0.5 if denominator >= 0 else -0.5)) / st
        distances += [(abs(x - ch - st * y), widths[i]), (abs(y - ct - sh * x), widths[d + i])]
    if all(v <= w for v, w in distances):
        return -sum((v / (2 * w + 1))**2 for v, w in distances)
    return -sum(((2 * w + 1) * v - w * ((2 * w + 1) - 1 / (2 * w + 1)))**2 for v, w in distances)


def scorer(model, d, tensors):
    memory = {}
    embedding_range = PHASES["embedding_range"]
    if model[:6] in ("transh", "transr", "transd"):
        return lambda h, r, t: score_projection(model, d, h, r, t)
    return {
        "mquine": lambda h, r, t: score_matrices(h, r, t, d),
        "mquade": lambda h, r, t: score_matrices(h, r, t, d),
        "transe-l1": lambda h, r, t: score_translation(h, r, t, 1),
        "transe-l2": lambda h, r, t: score_translation(h, r, t, 2),
        "distmult": score_distmult,
        "complex": lambda h, r, t: score_complex(h, r, t, d),
        "rotate": lambda h, r, t: score_rotate(h, r, t, d, math.pi / embedding_range),
        "mode": lambda h, r, t: -sum_of(abs(a * b - c) for a, b, c in zip(h, r[0], t)),
        "rotate-l2": lambda h, r, t: score_rotate_l2(h, r, t, d, math.pi / embedding_range),
        # The authors' code of pRotatE and of HAKE has this mistyped π.
        "protate": lambda h, r, t: score_protate(h, r, t, 3.14159262358979323846 / embedding_range),
        "rescal": lambda h, r, t: score_rescal(h, r, t, d),
        "cp": lambda h, r, t: score_cp(h, r, t, d),
        "simple": lambda h, r, t: score_simple(h, r, t, d),
        "quate": lambda h, r, t: score_quate(h, r, t, d),
        "duale": lambda h, r, t: score_duale(h, r, t, d),
        "dihedral": lambda h, r, t: score_dihedral(h, r, t, d),
        "seek": lambda h, r, t: score_seek(h, r, t, d),
        "tucker": lambda h, r, t: score_tucker(h, r, t, d, tensors, memory),
        "conve": lambda h, r, t: score_conve(h, r, t, d, tensors, memory),
        "ote": score_ote,  # also takes the side of the query
        "house": score_house,
        "hake": lambda h, r, t: score_hake(h, r, t, d, 3.14159262358979323846 / embedding_range / 2),
        "boxe": lambda h, r, t: score_boxe(h, r, t, d),
        "expressive": lambda h, r, t: score_expressive(h, r, t, d, False),
        "expressive-functional": lambda h, r, t: score_expressive(h, r, t, d, True),
    }[model]


def rank_lines(splits, entities, relations, id_of, tensors, score):
    """Returns the lines of a ranks file and the distance of the closest two different scores."""
    rows, parameters = tensors["entity"], [rows for rows in tensors.values() if len(rows) == RELATIONS]
    closest = math.inf
    lines = ["side\thead\trelation\ttail" + "".join(f"\t{f}_better\t{f}_equal" for f in ("none", "train", "all"))]
    filters = [set(), set(splits["train"]), set().union(*splits.values())]
    for side in ("tail", "head"):
        for h, r, t in splits["test"]:
            relation = [p[r] for p in parameters]
            answer = t if side == "tail" else h
            triple = (lambda e: (h, r, e)) if side == "tail" else (lambda e: (e, r, t))
            sided = [side] if score is score_ote else []
            scores = [score(rows[id_of[triple(e)[0]]], relation, rows[id_of[triple(e)[2]]], *sided)
                      for e in range(ENTITIES)]
            counts = []
            for known in filters:
                rest = [scores[e] for e in range(ENTITIES) if e != answer and triple(e) not in known]
                counts += [sum(s > scores[answer] for s in rest), sum(s == scores[answer] for s in rest)]
            ordered = sorted(set(scores))
            closest = min([closest] + [b - a for a, b in zip(ordered, ordered[1:])])
            lines.append("\t".join([side, entities[h], relations[r], entities[t]] + [str(c) for c in counts]))
    return lines, closest


def write(path, data):
    path = os.path.join(FOLDER, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def write_checkpoint(model, metadata, dims, tensors, entities, relations):
    header, data = {"__metadata__": metadata}, b""
    for (name, shape), rows in zip(dims, tensors):
        block = b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(block)]}
        data += block
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder = f"checkpoints/{model}"
    write(f"{folder}/model.safetensors", struct.pack("<Q", len(text)) + text + data)
    write(f"{folder}/entities.tsv", "".join(f"{i}\t{e}\n" for i, e in enumerate(entities)))
    write(f"{folder}/relations.tsv", "".join(f"{i}\t{r}\n" for i, r in enumerate(relations)))


def main():
    rng = random.Random(1)
    entities, relations, splits = make_graph(rng)
    for name, triples in splits.items():
        write(f"graph/{name}.txt", "".join(f"{entities[h]}\t{relations[r]}\t{entities[t]}\n" for h, r, t in triples))
    # The checkpoint numbers entities in a different order from the graph.
    order = list(range(ENTITIES))
    rng.shuffle(order)
    id_of = {e: i for i, e in enumerate(order)}
    for model in MODELS + LATER:
        if model in LATER:
            rng = random.Random(model)
        d = DIM.get(model, 11)
        metadata = {"format": "mquine/1", "model": model, "dim": str(d), "dataset": "graph"}
        metadata |= {key: str(value) for key, value in HYPER.get(model, {}).items()}
        tensors = make_tensors(rng, model, d)
        write_checkpoint(model, metadata, shapes(model, d), tensors, [entities[e] for e in order], relations)
        named = {name: rows for (name, _), rows in zip(shapes(model, d), tensors)}
        lines, closest = rank_lines(splits, entities, relations, id_of, named, scorer(model, d, named))
        write(f"ranks/{model}.tsv", "".join(line + "\n" for line in lines))
        print(f"{model}: the closest different scores of a query are {closest:.2g} apart")


main()
