"""Evaluate a checkpoint with PyTorch on a GPU, as a rival of `mquine eval --backend cuda`.

The code is what a competent user would write. It starts with the parameters on the card, and
computes the counts of both sides under the filters none, train and all.

    python3 gpu_rival.py CHECKPOINT DATA [--precision fp32|tf32] [--batch 1024] [--name NAME]

The code scores every query, even a repeated one. Known answers are on the card before the clock
starts. The time is the best of three runs after a warm-up run. Neither precision is exact: a
candidate whose score is close to the target's may be counted wrongly. The program prints a line in
the Go benchmark format.
"""
import argparse, os, sys, time
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench", "rivals"))
from torch_eval import MODELS, Known, read_safetensors, read_split, read_vocabulary


def prepare(test, known, batch):
    batches = []
    for tail in (True, False):
        anchor, answer = (0, 2) if tail else (2, 0)
        for at in range(0, len(test), batch):
            rows = test[at: at + batch]
            lists = {}
            for name, found in (("train", known[tail].train), ("all", known[tail].all)):
                row_of, col_of = [], []
                for i, row in enumerate(rows.tolist()):
                    others = found.get((row[anchor], row[1]), set()) - {row[answer]}
                    row_of += [i] * len(others)
                    col_of += others
                lists[name] = torch.tensor(row_of, dtype=torch.long), torch.tensor(col_of, dtype=torch.long)
            columns = [torch.tensor(rows[:, column]) for column in (anchor, 1, answer)]
            batches.append((tail, *columns, lists))
    return batches


def rank(model, batches):
    results = []
    for tail, anchor, relation, answer, lists in batches:
        s = model.scores(model.queries(anchor, relation, tail))
        target = s.gather(1, answer[:, None])
        better, equal = (s > target).sum(1), (s == target).sum(1) - 1
        counts = [better, equal]
        for row_of, col_of in lists.values():
            x, y = s[row_of, col_of], target[row_of, 0]
            counts.append(better - torch.zeros_like(better).index_add_(0, row_of, (x > y).long()))
            counts.append(equal - torch.zeros_like(better).index_add_(0, row_of, (x == y).long()))
        results.append(torch.stack(counts))
    torch.cuda.synchronize()
    return torch.cat(results, 1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("checkpoint")
    p.add_argument("data")
    p.add_argument("--precision", choices=("fp32", "tf32"), default="fp32")
    p.add_argument("--batch", type=int, default=1024)
    p.add_argument("--name", default="Evaluate")
    o = p.parse_args()
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = o.precision == "tf32"
    meta, tensors = read_safetensors(os.path.join(o.checkpoint, "model.safetensors"))
    entities = read_vocabulary(os.path.join(o.checkpoint, "entities.tsv"))
    relations = read_vocabulary(os.path.join(o.checkpoint, "relations.tsv"))
    splits = [read_split(o.data, s, entities, relations) for s in ("train", "valid", "test")]
    known = {True: Known(splits, 0, 2), False: Known(splits, 2, 0)}
    torch.set_default_device("cuda")
    model = MODELS[meta["model"]](meta, {k: v.cuda() for k, v in tensors.items()})
    batches = prepare(splits[2], known, o.batch)
    best = float("inf")
    for i in range(4):
        torch.cuda.synchronize()
        start = time.perf_counter()
        counts = rank(model, batches)
        if i > 0:
            best = min(best, time.perf_counter() - start)
    mrr = (1 / (1 + counts[4] + counts[5] / 2)).mean().item()
    print(f"Benchmark{o.name}/backend=pytorch-{o.precision} 1 {best:.6f} rank-s {mrr:.4f} MRR")


if __name__ == "__main__":
    main()
