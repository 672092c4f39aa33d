"""A training step of MQuinE in PyTorch, as a competent user would write it.

This is the rival of `mquine train`: both sides of a batch of positives, negatives that the queries of a side
share, softmax cross-entropy over the target and the negatives, gradients from autograd, Adam. Scores use
the matrix form. With A = H Rh and B = H Rc - Rt, a tail query scores -|A + B T|^2. Up to a constant, which
the softmax ignores, this is the dot product of [-2 sym(B'A), -B'B] and [T, T^2]. A plain d^3 evaluation of
every pair would be some 30 times slower. Every distinct entity of a batch is looked up and squared once.

--form packed uses the lower triangles of symmetric matrices, as mquine does, but has to gather them;
full uses all d^2 entries, which doubles the operations of the products. --adam dense is torch.optim.Adam on
all parameters, sparse is torch.optim.SparseAdam on the rows of the batch. "auto" tries all four
combinations and uses the fastest.

The Go program in this folder starts this program and sends requests, one JSON object per line:

    python3 torch_step.py FOLDER [--threads 2] [--form auto] [--adam auto]

FOLDER has shape.json (entities, relations, dim), parameters.f32 (entity triangles, then Rh, Rt, Rc) and
triples.i32.

{"batch": n, "negatives": n, "steps": n} runs steps and returns their wall-clock and processor seconds.
{"check": true} runs one step of gradient descent at rate 1 in both forms, with all triples as the batch
and all entities as candidates. It returns the losses and writes the parameters to after-FORM.f32.
{"about": true} returns the fastest form and optimiser.
"""
import argparse
import json
import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F


class Model:
    def __init__(self, shape, parameters, form, adam):
        n, r, d = shape["entities"], shape["relations"], shape["dim"]
        p = d * (d + 1) // 2
        self.n, self.d, self.full = n, d, form == "full"
        i, j = torch.tril_indices(d, d)
        place = torch.zeros(d, d, dtype=torch.long)
        place[i, j] = place[j, i] = torch.arange(p)
        self.unpack = place.flatten()
        self.pack = i * d + j
        # The diagonal of E = A + A' is twice the diagonal of A. Packed entries off the diagonal count twice.
        self.twice = (1 + torch.eye(d)).to(parameters.dtype)
        self.weight = torch.where(i == j, 1, 2).to(parameters.dtype)
        entity, relation = parameters[:n * p].view(n, p), parameters[n * p:].view(3, r, d * d)
        relation = relation.transpose(0, 1).reshape(r, 3 * d * d)
        sparse = adam == "sparse"
        self.entity = torch.nn.Embedding.from_pretrained(entity.clone(), freeze=False, sparse=sparse)
        self.relation = torch.nn.Embedding.from_pretrained(relation.clone(), freeze=False, sparse=sparse)
        self.parameters = [self.entity.weight, self.relation.weight]
        if adam is not None:
            self.optimiser = (torch.optim.SparseAdam if sparse else torch.optim.Adam)(self.parameters, lr=3e-3)

    def flat(self, m):
        m = m.flatten(1)
        return m if self.full else m.index_select(1, self.pack)

    def queries(self, e, rh, rt, rc):
        a, b = e @ rh, torch.baddbmm(-rt, e, rc)
        bt = b.transpose(1, 2)
        ba = bt @ a
        q = torch.stack([self.flat(ba + ba.transpose(1, 2)), self.flat(bt @ b)], 1)
        return -(q if self.full else q * self.weight).flatten(1)

    def loss(self, triples, candidates):
        """candidates lists the negatives of the tail queries and of the head queries."""
        head, relation, tail = triples.t()
        ids, place = torch.unique(torch.cat([head, tail, *candidates]), return_inverse=True)
        head_row, tail_row, *rows = place.split([len(head), len(tail)] + [len(c) for c in candidates])
        e = self.entity(ids).index_select(1, self.unpack).view(-1, self.d, self.d) * self.twice
        phi = torch.cat([self.flat(e), self.flat(e @ e)], 1)
        relations, which = torch.unique(relation, return_inverse=True)
        rh, rt, rc = self.relation(relations).index_select(0, which).view(-1, 3, self.d, self.d).unbind(1)
        loss = 0
        # A head query is a tail query of the inverse relation.
        inverse = rt.transpose(1, 2), rh.transpose(1, 2), -rc.transpose(1, 2)
        for matrices, anchor, answer, answer_row, negatives, row in (
                ((rh, rt, rc), head_row, tail, tail_row, candidates[0], rows[0]),
                (inverse, tail_row, head, head_row, candidates[1], rows[1])):
            q = self.queries(e.index_select(0, anchor), *matrices)
            own = (q * phi.index_select(0, answer_row)).sum(1, keepdim=True)
            others = q @ phi.index_select(0, row).t()
            others = others.masked_fill(answer[:, None] == negatives, -1e30)
            scores = torch.cat([own, others], 1)
            loss = loss + F.cross_entropy(scores, torch.zeros(len(q), dtype=torch.long)) / 2
        return loss

    def step(self, triples, negatives):
        candidates = [torch.randperm(self.n)[:negatives] for _ in range(2)]
        self.optimiser.zero_grad(set_to_none=True)
        self.loss(triples, candidates).backward()
        self.optimiser.step()

    def run(self, triples, batch, negatives, steps):
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(steps):
            self.step(triples[torch.randint(len(triples), (batch,))], negatives)
        return time.perf_counter() - wall, time.process_time() - cpu

    def descend(self, triples):
        everything = torch.arange(self.n)
        loss = self.loss(triples, [everything, everything])
        loss.backward()
        with torch.no_grad():
            entity, relation = [x - x.grad for x in self.parameters]
        relation = relation.view(len(relation), 3, -1).transpose(0, 1)
        return loss.item(), torch.cat([entity.flatten(), relation.flatten()])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--form", choices=["auto", "packed", "full"], default="auto")
    parser.add_argument("--adam", choices=["auto", "dense", "sparse"], default="auto")
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(1)
    with open(os.path.join(o.folder, "shape.json")) as f:
        shape = json.load(f)
    parameters = torch.from_numpy(np.fromfile(os.path.join(o.folder, "parameters.f32"), np.float32))
    triples = torch.from_numpy(np.fromfile(os.path.join(o.folder, "triples.i32"), np.int32)).long().view(-1, 3)

    def answer(**values):
        print(json.dumps(values), flush=True)

    answer(torch=torch.__version__)
    model, how = None, {}
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("about"):
            answer(**how)
            continue
        if request.get("check"):
            losses = {}
            for form in ("full", "packed"):
                loss, after = Model(shape, parameters, form, None).descend(triples)
                after.numpy().tofile(os.path.join(o.folder, f"after-{form}.f32"))
                losses[form] = loss
            answer(losses=losses)
            continue
        work = request["batch"], request["negatives"]
        if model is None:
            tries = []
            for form in ("packed", "full") if o.form == "auto" else (o.form,):
                for adam in ("dense", "sparse") if o.adam == "auto" else (o.adam,):
                    m = Model(shape, parameters, form, adam)
                    m.run(triples, *work, 1)
                    tries.append((min(m.run(triples, *work, 1)[1] for _ in range(2)), form, adam, m))
            _, form, adam, model = min(tries, key=lambda t: t[0])
            how = {"form": form, "adam": adam, "tried": {f"{t[1]}, {t[2]}": t[0] for t in tries}}
            del tries
        wall, cpu = model.run(triples, *work, request["steps"])
        answer(wall=wall, cpu=cpu)


main()
