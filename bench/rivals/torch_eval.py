"""Full filtered ranking of a mquine/1 checkpoint in PyTorch, as a competent user would write it.

This is the rival of `mquine eval`: both sides, filters none, train and all, on the CPU. Batches of queries are
scored against all entities into one reused matrix. Better and equal candidates are counted in it, and
known answers are looked up in it by precomputed indices. Candidate features are computed once: MQuinE
uses the matrix form [E, E^2], packed, as in mquine (a plain d^3 evaluation would be some 30 times
slower). Scores are float32, so rounding may put candidates near the target on either side of it.

    python3 torch_eval.py CHECKPOINT DATA [--threads 2] [--batch N] [--limit N] [--repeat 3]

DATA is a folder with train, valid and test as .txt or .txt.gz. Without --batch and --chunk the program
tries a few sizes and uses the fastest. --unique scores repeated queries once. --limit ranks a sample of
about that many queries and extrapolates. --serve answers requests from the Go program in this folder,
one JSON object per line.
"""
import argparse
import gzip
import json
import os
import struct
import sys
import time

import numpy as np
import torch


# Files.

def read_safetensors(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = np.frombuffer(f.read(), dtype=np.uint8)
    meta = header.pop("__metadata__")
    tensors = {}
    for name, t in header.items():
        start, end = t["data_offsets"]
        tensors[name] = torch.from_numpy(data[start:end].view(np.float32).copy()).reshape(t["shape"])
    return meta, tensors


def read_vocabulary(path):
    with open(path, encoding="utf-8") as f:
        return {label: int(i) for i, label in (line.rstrip("\n").split("\t") for line in f)}


def read_split(folder, split, entities, relations):
    for name, opener in ((split + ".txt", open), (split + ".txt.gz", gzip.open)):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            with opener(path, "rt", encoding="utf-8") as f:
                rows = [line.rstrip("\r\n").split("\t") for line in f]
            return np.array([(entities[h], relations[r], entities[t]) for h, r, t in rows], dtype=np.int64)
    raise SystemExit(f"no {split}.txt or {split}.txt.gz in {folder}")


# Models: the features of all candidates, computed once, and the queries and scores of a batch.

def pack(m):
    i, j = torch.tril_indices(m.shape[-1], m.shape[-1])
    return m[..., i, j]


class Dot:
    """Scores are dot products of queries and features phi [N, F]."""

    batches = 64, 128, 256, 512, 1024

    def scores(self, q, out):
        torch.mm(q, self.phi.t(), out=out)


class MQuinE(Dot):
    def __init__(self, meta, t):
        d = int(meta["dim"])
        i, j = torch.tril_indices(d, d)
        a = torch.zeros(t["entity"].shape[0], d, d)
        a[:, i, j] = t["entity"]
        self.e = a + a.transpose(1, 2)
        self.rh, self.rt = t["relation.head"], t["relation.tail"]
        self.rc = t.get("relation.cross", torch.zeros_like(self.rh))
        self.phi = torch.cat([pack(self.e), pack(self.e @ self.e)], 1)
        self.weight = torch.full((len(i),), -2.0)  # an entry off the diagonal counts twice
        self.weight[i == j] = -1.0

    def queries(self, anchor, relation, tail):
        e, rh, rt, rc = self.e[anchor], self.rh[relation], self.rt[relation], self.rc[relation]
        if not tail:  # the tail query of the inverse relation
            rh, rt, rc = rt.transpose(1, 2), rh.transpose(1, 2), -rc.transpose(1, 2)
        a, b = e @ rh, e @ rc - rt
        bt = b.transpose(1, 2)
        ba = bt @ a
        return torch.cat([pack(ba + ba.transpose(1, 2)) * self.weight, pack(bt @ b) * self.weight], 1)


class DistMult(Dot):
    def __init__(self, meta, t):
        self.phi, self.r = t["entity"], t["relation"]

    def queries(self, anchor, relation, tail):
        return self.phi[anchor] * self.r[relation]


class ComplEx(DistMult):
    def queries(self, anchor, relation, tail):
        are, aim = self.phi[anchor].chunk(2, 1)
        rre, rim = self.r[relation].chunk(2, 1)
        if tail:
            return torch.cat([are * rre - aim * rim, are * rim + aim * rre], 1)
        return torch.cat([are * rre + aim * rim, aim * rre - are * rim], 1)


class Distance:
    """Scores are sums over differences, which are computed in reused scratch memory, one chunk of
    candidates at a time. A chunk of a few MiB stays in the caches. Computing whole batches at once, or
    torch.cdist with p=1, is at least three times slower."""

    batches = 32, 128
    chunks = 1 << 18, 1 << 19, 1 << 20, 1 << 21  # differences per chunk

    def each(self, rows, width, n):
        step = max(1, self.chunk // (rows * width))
        for at in range(0, n, step):
            yield at, min(step, n - at)

    def scratch(self, rows, step, width):
        if getattr(self, "memory", None) is None or self.memory.shape[1] < rows * step * width:
            self.memory = torch.empty(2, rows * step * width)
        return self.memory[:, :rows * step * width].view(2, rows, step, width)


class TransEL1(Distance):
    def __init__(self, meta, t):
        self.phi, self.r = t["entity"], t["relation"]

    def queries(self, anchor, relation, tail):
        return self.phi[anchor] + (1 if tail else -1) * self.r[relation]

    def scores(self, q, out):
        if self.chunk == 0:
            torch.neg(torch.cdist(q, self.phi, p=1), out=out)
            return
        for at, n in self.each(*q.shape, len(self.phi)):
            x = self.scratch(len(q), n, q.shape[1])[0]
            torch.sub(q[:, None], self.phi[None, at:at + n], out=x)
            torch.sum(x.abs_(), 2, out=out[:, at:at + n])
        out.neg_()

    chunks = Distance.chunks + (0,)  # 0: torch.cdist


class RotatE(Distance):
    def __init__(self, meta, t):
        self.phi, self.r = t["entity"], t["relation"]
        self.unit = 3.14159265358979323846 / float(meta["embedding_range"])
        self.re, self.im = (x.contiguous() for x in self.phi.chunk(2, 1))

    def queries(self, anchor, relation, tail):
        re, im = self.re[anchor], self.im[anchor]
        phase = self.r[relation] * self.unit
        c, s = torch.cos(phase), torch.sin(phase) * (1 if tail else -1)
        return torch.cat([re * c - im * s, re * s + im * c], 1)

    def scores(self, q, out):
        re, im = (x.contiguous() for x in q.chunk(2, 1))
        for at, n in self.each(*re.shape, len(self.re)):
            x, y = self.scratch(len(re), n, re.shape[1])
            torch.sub(re[:, None], self.re[None, at:at + n], out=x)
            torch.sub(im[:, None], self.im[None, at:at + n], out=y)
            torch.sum(x.mul_(x).addcmul_(y, y).sqrt_(), 2, out=out[:, at:at + n])
        out.neg_()


MODELS = {
    "mquine": MQuinE, "mquade": MQuinE, "complex": ComplEx, "distmult": DistMult,
    "transe-l1": TransEL1, "rotate": RotatE,
}


# Queries.

class Side:
    """The queries of one side with their targets, and the other known answers of each target."""

    def __init__(self, splits, n, tail, unique):
        anchor, answer = (0, 2) if tail else (2, 0)
        test = splits[2]
        key = test[:, 1] * n + test[:, anchor]
        if unique:
            keys, row = np.unique(key, return_inverse=True)
            self.order = np.argsort(row, kind="stable")
            row = row[self.order]
        else:
            keys, row = key, np.arange(len(key))
            self.order = row
        self.tail = tail
        self.anchor, self.relation = torch.from_numpy(keys % n), torch.from_numpy(keys // n)
        self.answer = torch.from_numpy(test[self.order, answer])
        self.row = torch.from_numpy(row)
        self.first = np.searchsorted(row, np.arange(len(keys) + 1))  # first target of each query
        self.known = [self.others(np.concatenate(s), key[self.order], self.answer.numpy(), n, anchor, answer)
                      for s in (splits[:1], splits)]

    @staticmethod
    def others(triples, key, target, n, anchor, answer):
        """All pairs (target, known answer), without the target itself, and where each target's pairs begin."""
        facts = np.unique((triples[:, 1] * n + triples[:, anchor]) * n + triples[:, answer])
        low, high = np.searchsorted(facts, key * n), np.searchsorted(facts, (key + 1) * n)
        count = high - low
        owner = np.repeat(np.arange(len(key)), count)
        entity = facts[np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)] % n
        keep = entity != target[owner]
        owner, entity = owner[keep], entity[keep]
        return torch.from_numpy(owner), torch.from_numpy(entity), np.searchsorted(owner, np.arange(len(key) + 1))

    def batches(self, size):
        """Consecutive queries with up to size targets."""
        start = 0
        while start < len(self.anchor):
            end = max(start + 1, int(np.searchsorted(self.first, self.first[start] + size, side="right")) - 1)
            yield self, start, end
            start = end


class Evaluation:
    def __init__(self, model, sides, n):
        self.model, self.sides, self.n = model, sides, n
        self.score = self.mask = self.rows = None

    def batches(self, size, limit=0):
        """All batches, or evenly spaced ones with about limit targets."""
        every = [b for side in self.sides for b in side.batches(size)]
        targets = sum(len(side.answer) for side in self.sides)
        if 0 < limit < targets:
            keep = max(1, round(len(every) * limit / targets))
            every = [every[i * len(every) // keep] for i in range(keep)]
        return every

    def matrix(self, name, rows):
        m = getattr(self, name)
        if m is None or len(m) < rows:
            m = torch.empty(rows, self.n)
            setattr(self, name, m)
        return m[:rows]

    def rank(self, side, start, end):
        """Counts of better and equal candidates, by filter, for the targets of queries start to end."""
        first, last = int(side.first[start]), int(side.first[end])
        s = self.matrix("score", end - start)
        self.model.scores(self.model.queries(side.anchor[start:end], side.relation[start:end], side.tail), s)
        if last - first > end - start:  # a row for each target
            s = torch.index_select(s, 0, side.row[first:last] - start, out=self.matrix("rows", last - first))
        target = s.gather(1, side.answer[first:last, None])
        # Summing a float32 mask is exact, and much faster than summing booleans.
        mask = self.matrix("mask", last - first)
        better = torch.gt(s, target, out=mask).sum(1).int()
        equal = torch.eq(s, target, out=mask).sum(1).int() - 1
        counts = [better, equal]
        for owner, entity, begin in side.known:
            at = slice(begin[first], begin[last])
            row = owner[at] - first
            x, y = s[row, entity[at]], target[row, 0]
            counts.append(better.index_add(0, row, (x > y).int(), alpha=-1))
            counts.append(equal.index_add(0, row, (x == y).int(), alpha=-1))
        return torch.stack(counts, 1)

    def run(self, batches):
        """Returns counts [targets, 3 filters x (better, equal)], wall-clock seconds and cores in use."""
        start, cpu = time.perf_counter(), time.process_time()
        counts = torch.cat([self.rank(*b) for b in batches])
        seconds = time.perf_counter() - start
        return counts, seconds, (time.process_time() - cpu) / seconds

    def places(self, batches):
        """The index of each count in mquine's ranks: tail queries of all test triples, then head queries."""
        return np.concatenate([side.order[side.first[a]:side.first[b]] + (0 if side.tail else len(side.answer))
                               for side, a, b in batches])

    def tune(self, batch, chunk):
        """Chooses the fastest of a few batch sizes, and of a distance's chunk sizes, unless they are given."""
        sizes = [b for b in self.model.batches if b * self.n <= 1 << 27] or [self.model.batches[0]]
        if batch:
            sizes = [batch]
        chunks = [chunk] if chunk is not None else getattr(self.model, "chunks", (None,))
        best = None
        for size in sizes:
            every = self.batches(size)
            sample = [every[0], every[len(every) // 2], every[-2 if len(every) > 1 else -1]]
            for c in chunks:
                self.model.chunk = c
                if c is not None:
                    sample = sample[:1]  # distances are slow: one batch is enough
                self.run(sample[:1])
                targets = sum(side.first[b] - side.first[a] for side, a, b in sample)
                rate = min(self.run(sample)[1] for _ in range(2)) / targets
                if best is None or rate < best[0]:
                    best = rate, size, c
        _, size, self.model.chunk = best
        return size, self.model.chunk


def blas():
    """The name of PyTorch's BLAS library, or "" for the reference BLAS."""
    torch.mm(torch.ones(64, 64), torch.ones(64, 64))
    if torch.backends.mkl.is_available():
        return "MKL"
    with open("/proc/self/maps") as f:
        mapped = f.read()
    return next((name for name in ("openblas", "blis", "atlas") if name in mapped), "")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("checkpoint")
    p.add_argument("data")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--batch", type=int, default=0)
    p.add_argument("--chunk", type=int, help="differences per chunk of a distance; 0: torch.cdist")
    p.add_argument("--unique", action="store_true")
    p.add_argument("--limit", type=int, default=0)
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--serve", action="store_true")
    o = p.parse_args()
    torch.set_num_threads(o.threads)
    library = blas()
    if not library:
        raise SystemExit("torch uses the reference BLAS, which is some 20 times slower: install libopenblas0-pthread")
    meta, tensors = read_safetensors(os.path.join(o.checkpoint, "model.safetensors"))
    if meta["model"] not in MODELS:
        raise SystemExit(f"torch_eval.py does not support {meta['model']}, only {', '.join(MODELS)}")
    entities = read_vocabulary(os.path.join(o.checkpoint, "entities.tsv"))
    relations = read_vocabulary(os.path.join(o.checkpoint, "relations.tsv"))
    splits = [read_split(o.data, s, entities, relations) for s in ("train", "valid", "test")]
    with torch.inference_mode():
        start = time.perf_counter()
        model = MODELS[meta["model"]](meta, tensors)
        features = time.perf_counter() - start
        e = Evaluation(model, [Side(splits, len(entities), tail, o.unique) for tail in (True, False)], len(entities))
        batch, chunk = e.tune(o.batch, o.chunk)
        about = {"torch": torch.__version__, "blas": library, "threads": torch.get_num_threads(),
                 "features": features, "batch": batch, "chunk": chunk}
        queries = 2 * len(splits[2])
        if o.serve:
            print(json.dumps(about), flush=True)
            for line in sys.stdin:
                request = json.loads(line)
                batches = e.batches(batch, request["limit"])
                counts, seconds, cores = e.run(batches)
                if request.get("ranks"):
                    places = torch.from_numpy(e.places(batches)).int()[:, None]
                    torch.cat([places, counts], 1).numpy().astype("<i4").tofile(request["ranks"])
                print(json.dumps({"queries": len(counts), "seconds": seconds, "cores": cores}), flush=True)
            return
        print(", ".join(f"{k} {v}" for k, v in about.items()))
        for _ in range(o.repeat):
            counts, seconds, cores = e.run(e.batches(batch, o.limit))
            ranks = 1 + counts[:, 4] + counts[:, 5] / 2
            note = f" (extrapolated from {len(counts)} of {queries} queries)" if len(counts) < queries else ""
            print(f"{meta['model']}: {seconds * queries / len(counts):.2f} s{note}, {cores:.1f} cores, "
                  f"MRR all both {(1 / ranks).mean():.4f}")


if __name__ == "__main__":
    main()
