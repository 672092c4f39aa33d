#!/usr/bin/env python3
"""Writes the graph, the checkpoints and the golden ranks of this folder.

The script needs only Python's standard library and shares nothing with the Go code. It computes the
score of every candidate from its definition in float64 (docs/checkpoint.md; the files of package
model give the order of operations), and counts ranks one candidate at a time. A run repeats the files
byte for byte. Sine and cosine may differ in their last bits between C libraries, but this does not
change a rank here: the script prints the distance of the closest two scores.
"""

import json
import math
import os
import random
import struct

ENTITIES, RELATIONS = 90, 5
SPLITS = {"train": 500, "valid": 40, "test": 60}
DIM = {"mquine": 5, "mquade": 5}  # vectors have 11, not a multiple of a register
MODELS = ["mquine", "mquade", "transe-l1", "transe-l2", "distmult", "complex", "rotate", "protate"]
# Later models draw from separate generators, so a new model changes no other file.
LATER = ["hake"]
PHASE_WEIGHT, MODULUS_WEIGHT = 0.75, 1.25  # of hake
FOLDER = os.path.dirname(os.path.abspath(__file__))


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def make_graph(rng):
    """Returns labels and triples of cliques and chains with some noise. Queries have several answers."""
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


def shapes(model, d):
    e, r = ENTITIES, RELATIONS
    return {
        "mquine": [("entity", [e, d * (d + 1) // 2])] + [(f"relation.{n}", [r, d, d]) for n in ("head", "tail", "cross")],
        "mquade": [("entity", [e, d * (d + 1) // 2])] + [(f"relation.{n}", [r, d, d]) for n in ("head", "tail")],
        "transe-l1": [("entity", [e, d]), ("relation", [r, d])],
        "transe-l2": [("entity", [e, d]), ("relation", [r, d])],
        "distmult": [("entity", [e, d]), ("relation", [r, d])],
        "complex": [("entity", [e, 2 * d]), ("relation", [r, 2 * d])],
        "rotate": [("entity", [e, 2 * d]), ("relation", [r, d])],
        "protate": [("entity", [e, d]), ("relation", [r, d])],
        "hake": [("entity", [e, 2 * d]), ("relation", [r, 3 * d])],
    }[model]


def make_tensors(rng, model, d):
    tensors = []
    for name, dims in shapes(model, d):
        row = math.prod(dims[1:])
        rows = [[float32(rng.gauss(0, 1)) for _ in range(row)] for _ in range(dims[0])]
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


def score_protate(h, r, t, unit):
    total = 0.0
    for a, b, c in zip(h, r[0], t):
        sh, ch, sr, cr, st, ct = (f(v * unit) for v in (a, b, c) for f in (math.sin, math.cos))
        x, y = sh * cr + ch * sr, ch * cr - sh * sr
        total += abs(x * ct - y * st)
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


def scorer(model, d, embedding_range):
    return {
        "mquine": lambda h, r, t: score_matrices(h, r, t, d),
        "mquade": lambda h, r, t: score_matrices(h, r, t, d),
        "transe-l1": lambda h, r, t: score_translation(h, r, t, 1),
        "transe-l2": lambda h, r, t: score_translation(h, r, t, 2),
        "distmult": score_distmult,
        "complex": lambda h, r, t: score_complex(h, r, t, d),
        "rotate": lambda h, r, t: score_rotate(h, r, t, d, math.pi / embedding_range),
        # The authors' code has this mistyped π for the model.
        "protate": lambda h, r, t: score_protate(h, r, t, 3.14159262358979323846 / embedding_range),
        "hake": lambda h, r, t: score_hake(h, r, t, d, 3.14159262358979323846 / embedding_range / 2),
    }[model]


def rank_lines(splits, entities, relations, id_of, tensors, score):
    """Returns the lines of a ranks file and the distance of the closest two different scores."""
    rows, parameters = tensors[0], tensors[1:]
    closest = math.inf
    lines = ["side\thead\trelation\ttail" + "".join(f"\t{f}_better\t{f}_equal" for f in ("none", "train", "all"))]
    filters = [set(), set(splits["train"]), set().union(*splits.values())]
    for side in ("tail", "head"):
        for h, r, t in splits["test"]:
            relation = [p[r] for p in parameters]
            answer = t if side == "tail" else h
            triple = (lambda e: (h, r, e)) if side == "tail" else (lambda e: (e, r, t))
            scores = [score(rows[id_of[triple(e)[0]]], relation, rows[id_of[triple(e)[2]]]) for e in range(ENTITIES)]
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
        embedding_range = 1.5
        if model in ("rotate", "protate", "hake"):
            metadata |= {"embedding_range": str(embedding_range), "gamma": "6"}
        if model == "hake":
            metadata |= {"phase_weight": str(PHASE_WEIGHT), "modulus_weight": str(MODULUS_WEIGHT)}
        tensors = make_tensors(rng, model, d)
        write_checkpoint(model, metadata, shapes(model, d), tensors, [entities[e] for e in order], relations)
        lines, closest = rank_lines(splits, entities, relations, id_of, tensors, scorer(model, d, embedding_range))
        write(f"ranks/{model}.tsv", "".join(line + "\n" for line in lines))
        print(f"{model}: the closest different scores of a query are {closest:.2g} apart")


main()
