"""Evaluate a checkpoint with PyTorch on a GPU, as a rival of `mquine eval --backend cuda`.

The rival on the CPU (bench/rivals/torch_eval.py) has the same model and counting: the counts of both
sides under the filters none, train and all. The parameters and the known answers are on the card
before the clock starts. The program measures two ways: every query is scored, even a repeated one
(pytorch), and, as in mquine, every distinct query is scored once (pytorch-unique).

    python3 gpu_rival.py CHECKPOINT DATA [--precision fp32 tf32] [--batch 1024 4096] [--name NAME]

The times of computing the candidates' features (pack-s) and of ranking (rank-s) are each the best of
three runs after a warm-up run, with the best batch size. Neither precision is exact: a candidate
whose score is close to the target's may be counted wrongly. The program prints a line in the Go
benchmark format for each way and precision.
"""
import argparse
import os
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench", "rivals"))
from torch_eval import MODELS, Evaluation, Side, read_safetensors, read_split, read_vocabulary


def to_card(side):
    """Moves the tensors of a side to the card and returns the side."""
    side.anchor, side.relation, side.answer, side.row = (
        x.cuda() for x in (side.anchor, side.relation, side.answer, side.row))
    side.known = [(owner.cuda(), entity.cuda(), begin) for owner, entity, begin in side.known]
    return side


def best_of_three(work):
    """Returns the result of work and the shortest time of three calls after a warm-up call."""
    best = float("inf")
    for i in range(4):
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = work()
        torch.cuda.synchronize()
        if i > 0:
            best = min(best, time.perf_counter() - start)
    return result, best


def main():
    p = argparse.ArgumentParser()
    p.add_argument("checkpoint")
    p.add_argument("data")
    p.add_argument("--precision", choices=("fp32", "tf32"), nargs="+", default=("fp32", "tf32"))
    p.add_argument("--batch", type=int, nargs="+", default=(1024, 4096))
    p.add_argument("--name", default="Evaluate")
    o = p.parse_args()
    meta, tensors = read_safetensors(os.path.join(o.checkpoint, "model.safetensors"))
    entities = read_vocabulary(os.path.join(o.checkpoint, "entities.tsv"))
    relations = read_vocabulary(os.path.join(o.checkpoint, "relations.tsv"))
    splits = [read_split(o.data, s, entities, relations) for s in ("train", "valid", "test")]
    ways = {name: [to_card(Side(splits, len(entities), tail, unique)) for tail in (True, False)]
            for name, unique in (("pytorch", False), ("pytorch-unique", True))}
    tensors = {name: t.cuda() for name, t in tensors.items()}
    torch.set_default_device("cuda")
    with torch.inference_mode():
        for precision in o.precision:
            torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
            model, pack = best_of_three(lambda: MODELS[meta["model"]](meta, tensors))
            for name, sides in ways.items():
                evaluation = Evaluation(model, sides, len(entities))
                runs = [best_of_three(lambda: evaluation.run(evaluation.batches(size))) for size in o.batch]
                (counts, _, _), rank = min(runs, key=lambda run: run[1])
                mrr = (1 / (1 + counts[:, 4] + counts[:, 5] / 2)).mean().item()
                times = f"{rank:.6f} rank-s {pack:.6f} pack-s"
                print(f"Benchmark{o.name}/backend={name}-{precision} 1 {times} {mrr:.4f} MRR", flush=True)


if __name__ == "__main__":
    main()
