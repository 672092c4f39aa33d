"""Full filtered ranking of a mquine/1 checkpoint in PyTorch, as a competent user writes it.

The rival of `mquine eval`: both sides, filters none, train and all, on the CPU. Queries are scored in
batches against all entities, the counts of better and equal candidates come from the batch's
score matrix, and known answers are looked up in it by precomputed indices. MQuinE is already in
matrix form, [E, E^2] packed, as mquine computes it; a plain d^3 evaluation would be some 30 times
slower. Scores are float32: candidates closer than its rounding may be counted on either side.

    python3 torch_eval.py CHECKPOINT DATA [--batch 256] [--threads 2] [--limit N] [--ranks FILE]

DATA is a folder with train/valid/test.txt or .txt.gz. With --limit only the first N test triples are
ranked and the time is extrapolated.
"""
import argparse, gzip, json, os, struct, time
import numpy as np
import torch


def read_safetensors(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(n))
        data = f.read()
    meta = header.pop("__metadata__")
    tensors = {}
    for name, t in header.items():
        a, b = t["data_offsets"]
        tensors[name] = torch.from_numpy(np.frombuffer(data[a:b], dtype=np.float32).copy()).reshape(t["shape"])
    return meta, tensors


def read_vocabulary(path):
    return {label: int(i) for i, label in (line.rstrip("\n").split("\t") for line in open(path, encoding="utf-8"))}


def read_split(folder, split, entities, relations):
    for name, opener in ((split + ".txt", open), (split + ".txt.gz", gzip.open)):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            with opener(path, "rt", encoding="utf-8") as f:
                rows = [line.rstrip("\n").split("\t") for line in f]
            return np.array([(entities[h], relations[r], entities[t]) for h, r, t in rows], dtype=np.int64)
    raise SystemExit(f"no {split}.txt(.gz) in {folder}")


class Known:
    """Known answers of (anchor, relation) on one side: from train, and from all splits."""

    def __init__(self, splits, anchor, answer):
        self.train, self.all = {}, {}
        for bit, triples in enumerate(splits):
            for row in triples.tolist():
                key = row[anchor], row[1]
                self.all.setdefault(key, set()).add(row[answer])
                if bit == 0:
                    self.train.setdefault(key, set()).add(row[answer])


def pack(m):
    d = m.shape[-1]
    i, j = torch.tril_indices(d, d)
    return m[..., i, j]


class MQuinE:
    def __init__(self, meta, t):
        d = int(meta["dim"])
        n = t["entity"].shape[0]
        a = torch.zeros(n, d, d)
        i, j = torch.tril_indices(d, d)
        a[:, i, j] = t["entity"]
        self.e = a + a.transpose(1, 2)
        self.rh, self.rt = t["relation.head"], t["relation.tail"]
        self.rc = t.get("relation.cross", torch.zeros_like(self.rh))
        self.phi = torch.cat([pack(self.e), pack(self.e @ self.e)], 1)
        self.double = torch.full((d * (d + 1) // 2,), 2.0)
        self.double[i == j] = 1.0

    def queries(self, anchor, relation, tail):
        e, rh, rt, rc = self.e[anchor], self.rh[relation], self.rt[relation], self.rc[relation]
        if not tail:
            rh, rt, rc = rt.transpose(1, 2), rh.transpose(1, 2), -rc.transpose(1, 2)
        a, b = e @ rh, e @ rc - rt
        bt = b.transpose(1, 2)
        ba = bt @ a
        return torch.cat([-pack(ba + ba.transpose(1, 2)) * self.double, -pack(bt @ b) * self.double], 1)

    def scores(self, q):
        return q @ self.phi.T


class ComplEx:
    def __init__(self, meta, t):
        self.phi, self.r = t["entity"], t["relation"]

    def queries(self, anchor, relation, tail):
        are, aim = self.phi[anchor].chunk(2, 1)
        rre, rim = self.r[relation].chunk(2, 1)
        if tail:
            return torch.cat([are * rre - aim * rim, are * rim + aim * rre], 1)
        return torch.cat([are * rre + aim * rim, aim * rre - are * rim], 1)

    scores = MQuinE.scores


class DistMult(ComplEx):
    def queries(self, anchor, relation, tail):
        return self.phi[anchor] * self.r[relation]


class TransEL1(ComplEx):
    def queries(self, anchor, relation, tail):
        return self.phi[anchor] + (1 if tail else -1) * self.r[relation]

    def scores(self, q):
        return -torch.cdist(q, self.phi, p=1)


class RotatE(ComplEx):
    def __init__(self, meta, t):
        super().__init__(meta, t)
        self.unit = 3.14159265358979323846 / float(meta["embedding_range"])
        self.cre, self.cim = (x.contiguous() for x in self.phi.chunk(2, 1))

    def queries(self, anchor, relation, tail):
        are, aim = self.phi[anchor].chunk(2, 1)
        phase = self.r[relation] * self.unit
        c, s = torch.cos(phase), torch.sin(phase) * (1 if tail else -1)
        return torch.cat([are * c - aim * s, are * s + aim * c], 1)

    def scores(self, q):
        qre, qim = q.chunk(2, 1)
        out = torch.empty(q.shape[0], self.cre.shape[0])
        step = max(1, (1 << 22) // (q.shape[0] * self.cre.shape[1]))  # entities at a time, within the caches
        for i in range(0, self.cre.shape[0], step):
            re = qre[:, None] - self.cre[None, i:i + step]
            im = qim[:, None] - self.cim[None, i:i + step]
            out[:, i:i + step] = -re.mul_(re).addcmul_(im, im).sqrt_().sum(2)
        return out


MODELS = {"mquine": MQuinE, "mquade": MQuinE, "complex": ComplEx, "distmult": DistMult, "transe-l1": TransEL1, "rotate": RotatE}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("checkpoint")
    p.add_argument("data")
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--limit", type=int, default=0)
    p.add_argument("--ranks")
    o = p.parse_args()
    torch.set_num_threads(o.threads)
    torch.set_grad_enabled(False)
    meta, tensors = read_safetensors(os.path.join(o.checkpoint, "model.safetensors"))
    entities = read_vocabulary(os.path.join(o.checkpoint, "entities.tsv"))
    relations = read_vocabulary(os.path.join(o.checkpoint, "relations.tsv"))
    splits = [read_split(o.data, s, entities, relations) for s in ("train", "valid", "test")]
    model = MODELS[meta["model"]](meta, tensors)
    test = splits[2][: o.limit] if o.limit else splits[2]
    known = {True: Known(splits, 0, 2), False: Known(splits, 2, 0)}

    # Index lists of the known answers, prepared before the clock starts, as loaders do.
    batches = []
    for tail in (True, False):
        anchor, answer = (0, 2) if tail else (2, 0)
        for at in range(0, len(test), o.batch):
            rows = test[at: at + o.batch]
            lists = {}
            for name, found in (("train", known[tail].train), ("all", known[tail].all)):
                row_of, col_of = [], []
                for i, row in enumerate(rows.tolist()):
                    others = found.get((row[anchor], row[1]), set()) - {row[answer]}
                    row_of += [i] * len(others)
                    col_of += others
                lists[name] = torch.tensor(row_of, dtype=torch.long), torch.tensor(col_of, dtype=torch.long)
            batches.append((tail, torch.from_numpy(rows[:, anchor].copy()), torch.from_numpy(rows[:, 1].copy()), torch.from_numpy(rows[:, answer].copy()), lists))

    start = time.time()
    results = []
    for tail, anchor, relation, answer, lists in batches:
        s = model.scores(model.queries(anchor, relation, tail))
        truth = s.gather(1, answer[:, None])
        better, equal = (s > truth).sum(1), (s == truth).sum(1) - 1
        counts = {"none": (better, equal)}
        for name, (row_of, col_of) in lists.items():
            x, y = s[row_of, col_of], truth[row_of, 0]
            less = torch.zeros_like(better).index_add_(0, row_of, (x > y).long())
            same = torch.zeros_like(better).index_add_(0, row_of, (x == y).long())
            counts[name] = better - less, equal - same
        results.append((tail, counts))
    seconds = time.time() - start
    scale = len(splits[2]) / len(test)
    ranks = torch.cat([1 + c["all"][0] + c["all"][1] / 2 for _, c in results])
    print(f"{meta['model']}: {seconds * scale:.2f} s{' (extrapolated)' if o.limit else ''}, MRR all both {(1 / ranks).mean():.4f}")
    if o.ranks:
        with open(o.ranks, "w") as f:
            for tail, c in results:
                for i in range(len(c["all"][0])):
                    f.write(("tail" if tail else "head") + "".join(f"\t{int(c[n][k][i])}" for n in ("none", "train", "all") for k in (0, 1)) + "\n")


if __name__ == "__main__":
    main()
