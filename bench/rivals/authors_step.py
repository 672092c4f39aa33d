"""Training steps of the authors' own code, on a processor instead of a GPU.

CODE is a checkout of one of
    https://github.com/facebookresearch/kbc                           ComplEx (Lacroix et al., 2018)
    https://github.com/DeepGraphLearning/KnowledgeGraphEmbedding      RotatE (Sun et al., 2019)
Its modules for the model, the regulariser, the negatives and the step run unchanged. This program replaces
their main programs, which read the data set and train for hours.

The Go program in this folder starts this program and sends requests, one JSON object per line:

    python3 authors_step.py FOLDER CODE [--threads 2]

FOLDER has shape.json (entities, relations, dim, batch, negatives, gamma, adversarial, learning_rate, lambda_reg),
parameters.f32 (entities, then relations) and triples.i32. With ComplEx, row 2r of the relations is relation r,
and row 2r + 1 its inverse.

{"scores": true} writes the score of every triple as a tail query, and then as a head query, to scores.f32.
{"steps": n} takes n steps, each with `batch` queries, and returns their wall-clock and processor seconds. The
processor time includes the processes that draw RotatE's negatives.
"""
import argparse
import json
import multiprocessing
import os
import sys
import time

import numpy as np
import torch

torch.Tensor.cuda = lambda tensor: tensor  # kbc moves every batch to the GPU


class ComplEx:
    """kbc/learn.py with N3 and Adagrad. An example is a query, and all entities are its candidates."""

    def __init__(self, shape, entity, relation, triples, _):
        from kbc.models import ComplEx as Model
        from kbc.optimizers import KBCOptimizer
        from kbc.regularizers import N3
        self.batch = shape["batch"]
        self.model = Model((len(entity), len(relation), len(entity)), shape["dim"])
        for table, values in zip(self.model.embeddings, (entity, relation)):
            table.weight.data.copy_(values)
        head, r, tail = triples.t()
        self.examples = torch.cat([torch.stack([head, 2 * r, tail], 1), torch.stack([tail, 2 * r + 1, head], 1)])
        adagrad = torch.optim.Adagrad(self.model.parameters(), lr=shape["learning_rate"])
        self.optimiser = KBCOptimizer(self.model, N3(shape["lambda_reg"]), adagrad, self.batch, verbose=False)

    def scores(self):
        return self.model.score(self.examples).flatten()

    def run(self, steps):
        self.optimiser.epoch(self.examples[torch.randint(len(self.examples), (steps * self.batch,))])


class RotatE:
    """codes/run.py with -de. A step has the head queries or the tail queries of `batch` triples, in turn."""

    def __init__(self, shape, entity, relation, triples, threads):
        from dataloader import BidirectionalOneShotIterator, TrainDataset
        from model import KGEModel
        self.model = KGEModel("RotatE", len(entity), len(relation), shape["dim"], shape["gamma"],
                              double_entity_embedding=True)
        self.model.entity_embedding.data.copy_(entity)
        self.model.relation_embedding.data.copy_(relation)
        self.triples = triples
        listed = [tuple(t) for t in triples.tolist()]
        # The loaders draw the negatives in separate processes. run.py starts five for each side by default.
        self.batches = BidirectionalOneShotIterator(*(
            torch.utils.data.DataLoader(
                TrainDataset(listed, len(entity), len(relation), shape["negatives"], side), batch_size=shape["batch"],
                shuffle=True, num_workers=max(1, threads // 2), collate_fn=TrainDataset.collate_fn)
            for side in ("head-batch", "tail-batch")))
        trained = (p for p in self.model.parameters() if p.requires_grad)
        self.adam = torch.optim.Adam(trained, lr=shape["learning_rate"])
        self.options = argparse.Namespace(
            cuda=False, negative_adversarial_sampling=True, adversarial_temperature=shape["adversarial"],
            uni_weight=False, regularization=0.0)

    def scores(self):
        single = self.model(self.triples).flatten()
        head, _, tail = self.triples.t()
        return torch.cat([single, self.model((self.triples, head[:, None]), mode="head-batch").flatten()])

    def run(self, steps):
        for _ in range(steps):
            self.model.train_step(self.model, self.adam, self.batches, self.options)


loaders = {}  # the processor seconds of every loader so far


def processor_seconds():
    for process in multiprocessing.active_children():
        try:
            with open(f"/proc/{process.pid}/stat") as f:
                user, system = f.read().rsplit(")", 1)[1].split()[11:13]
        except FileNotFoundError:  # the loader has ended
            continue
        loaders[process.pid] = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return time.process_time() + sum(loaders.values())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("code")
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(1)
    with open(os.path.join(o.folder, "shape.json")) as f:
        shape = json.load(f)
    parameters = torch.from_numpy(np.fromfile(os.path.join(o.folder, "parameters.f32"), np.float32))
    triples = torch.from_numpy(np.fromfile(os.path.join(o.folder, "triples.i32"), np.int32)).long().view(-1, 3)
    entities = 2 * shape["dim"] * shape["entities"]
    entity = parameters[:entities].view(shape["entities"], -1)
    relation = parameters[entities:].view(shape["relations"], -1)
    if os.path.exists(os.path.join(o.code, "kbc", "models.py")):
        sys.path.insert(0, o.code)
        rival = ComplEx(shape, entity, relation, triples, o.threads)
    else:
        sys.path.insert(0, os.path.join(o.code, "codes"))
        rival = RotatE(shape, entity, relation, triples, o.threads)

    def answer(**values):
        print(json.dumps(values), flush=True)

    answer(torch=torch.__version__)
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("scores"):
            with torch.no_grad():
                rival.scores().numpy().tofile(os.path.join(o.folder, "scores.f32"))
            answer()
            continue
        wall, cpu = time.perf_counter(), processor_seconds()
        rival.run(request["steps"])
        answer(wall=time.perf_counter() - wall, cpu=processor_seconds() - cpu)


main()
