"""Small models with known far fields, as audits see them."""

import numpy as np
import torch
from torch import nn

import farfield as ff
from farfield.audit.subject import Subject
from farfield.data import TableColumn


def affine(weight, bias):
    layer = nn.Linear(len(weight[0]), len(weight))
    layer.weight.data = torch.tensor(weight)
    layer.bias.data = torch.tensor(bias)
    return layer


def subject_of(models, rows, *, moving=None, labels=None, classes=None, task="classification"):
    network = ff.capture(models, torch.as_tensor(rows[:1], dtype=torch.float32))
    flat = rows.reshape(len(rows), -1)
    if moving is None:
        moving = tuple(TableColumn(f"f{place}", (place,)) for place in range(flat.shape[1]))
    return Subject(
        model=network,
        task=task,
        classes=classes or tuple(f"c{k}" for k in range(network.classes)),
        moving=moving,
        rows=rows,
        labels=labels,
        low=flat.min(axis=0),
        high=flat.max(axis=0),
        mean=flat.mean(axis=0),
        std=flat.std(axis=0),
    )


def random_subject(seed=0, inputs=4, hidden=16, classes=3, members=1, rows=200, **more):
    torch.manual_seed(seed)
    models = [
        nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))
        for _ in range(members)
    ]
    data = np.random.default_rng(seed).standard_normal((rows, inputs)) * np.arange(1, inputs + 1)
    return subject_of(models if members > 1 else models[0], data, **more)
