"""Every kind of file that farfield reads: whole examples, ways to change them, the reader."""

import gzip
import io
import pickle
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import nn

import farfield as ff
from farfield.audit.record import Audit
from farfield.data import open_images, open_table, read_images, read_schema
from farfield.data.arrays import read_npy
from farfield.data.image_files import read_cifar_binary, read_cifar_pickle, read_idx
from farfield.estimators import EnsembleClassifier, TemperatureScaling
from farfield.estimators.images.training import read_checkpoint, write_checkpoint
from farfield.guard import load as load_guard
from fuzz.booster_files import (
    catboost_json,
    change_lines,
    lightgbm_text,
    rewrite,
    xgboost_binary,
    xgboost_json,
)
from fuzz.mutations import (
    any_of,
    change_bytes,
    change_json,
    change_npy,
    change_safetensors,
    change_zip,
    inside_gzip,
)
from fuzz.onnx_files import data_of, image_model, rearrange, table_model
from saved_programs import save


@dataclass(frozen=True)
class Format:
    """A kind of file.

    Attributes:
        seeds: Makes whole files.
        change: Changes one, given a source of randomness.
        readers: Read a file, or refuse it by an error of farfield's; the first gets most files.
        share: Of a run's time.
        suffix: What the file is called.
    """

    seeds: Callable
    change: Callable
    readers: tuple[Callable, ...]
    share: float = 1.0
    suffix: str = ""


def table():
    rng = np.random.default_rng(0)
    return rng.normal(size=(6, 3)), np.array([0, 1, 0, 1, 1, 0])


def csv():
    return [
        b'a,b,c\n1,x,true\n2.5,"y ""z""",false\n,?,true\n4,x,\n',
        "é,b\n1e300,2\r\n 7 ,nan".encode(),
    ]


CELLS = [
    b"1",
    b"-2.5",
    b"1e400",
    b"nan",
    b"inf",
    b"",
    b"NA",
    b"x",
    b"true",
    b'"',
    b'"a',
    b"\r",
    b",",
    b"\n",
]


def change_cells(data, random):
    """Put cells where bytes were."""
    place = random.randint(0, len(data))
    some = b"".join(random.choices(CELLS, k=random.randint(1, 6)))
    return data[:place] + some + data[place + random.randint(0, 4) :]


def parquet():
    X, y = table()
    columns = {"a": X[:, 0], "b": ["u", "v", None, "u", "v", "w"], "c": y == 1}
    out = []
    for options in ({"row_group_size": 4}, {"compression": "none", "use_dictionary": False}):
        file = io.BytesIO()
        pq.write_table(pa.table(columns), file, **options)
        out.append(file.getvalue())
    return out


def images():
    return np.random.default_rng(1).integers(0, 256, (2, 4, 4), dtype=np.uint8)


def npz():
    X, y = table()
    plain, packed = io.BytesIO(), io.BytesIO()
    np.savez(plain, X=X, y=y)
    np.savez_compressed(packed, images=images(), labels=np.array([0, 1]))
    return [plain.getvalue(), packed.getvalue()]


def npy():
    out = []
    for array in (table()[0], images()):
        file = io.BytesIO()
        np.save(file, array)
        out.append(file.getvalue())
    return out


def idx():
    return [bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 4, 4) + images().tobytes()]


def idx_gz():
    return [gzip.compress(idx()[0], mtime=0)]


def cifar():
    data = np.random.default_rng(2).integers(0, 256, (2, 3072), dtype=np.uint8)
    return [pickle.dumps({b"data": data, b"labels": [3, 4]}, 4)]


def cifar_binary():
    return [bytes([3]) + bytes(3072) + bytes([9]) + bytes(range(256)) * 12]


def written(write, name="file"):
    """What a function writes."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / name)
        return (Path(folder) / name).read_bytes()


@cache
def fitted():
    X, y = table()
    return EnsembleClassifier(members=2, hidden=(4,), epochs=1, random_state=0).fit(X, y)


def estimators():
    X, y = table()
    X, y = np.tile(X, (4, 1)), np.tile(y, 4)
    scaled = TemperatureScaling(fitted(), prefit=True, random_state=0).fit(X, y)
    return [written(fitted().save), written(scaled.save)]


def guards():
    X = np.random.default_rng(3).normal(size=(120, 3))
    return [written(ff.guard(fitted(), X).save)]


def audits():
    X, y = table()
    found = ff.audit(fitted(), np.tile(X, (5, 1)), np.tile(y, 5), directions=20, samples=10)
    return [found.to_json().encode()]


def schemas():
    return [
        b'order = ["a", "b"]\n[features.a]\nmin = 0\nmax = 1.5\nunit = "kg"\n'
        b'[features.b]\nkind = "categorical"\nvalues = ["x", "y"]\n[label]\ncolumn = "y"\n'
    ]


def checkpoints():
    tensors = {"weight": torch.zeros(2, 3), "step": torch.zeros(1, dtype=torch.int64)}
    return [written(lambda path: write_checkpoint(path, tensors, {"epoch": 1, "a": [1, {"b": 2}]}))]


def programs():
    torch.manual_seed(0)
    small = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    net = nn.Sequential(
        *(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.SiLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Dropout(), nn.Linear(2, 3), nn.Softmax(-1)),
    )
    return [
        written(lambda path: save(small, torch.zeros(2, 3), path), "model.pt2"),
        written(lambda path: save(net.eval(), torch.zeros(2, 1, 4, 4), path), "model.pt2"),
    ]


def change_member(name, content, random):
    """Change JSON as JSON, arrays by their description, and anything by its bytes."""
    if name.endswith(".json") and random.random() < 0.9:
        return change_json(content, random)
    if name.endswith(".npy") and random.random() < 0.7:
        return change_npy(content, random)
    return change_bytes(content, random)


def change_archive(data, random):
    """Change the members of a zip file."""
    return change_zip(change_member, random, data)


def read_model(path):
    network = ff.capture(path)
    network.logits(some_row(network))


def some_row(network):
    """Zeros, and the first category where a column has categories."""
    if network.columns is None:
        return np.zeros((1, *network.input_shape))
    values = [column.categories[0] if column.categories else 0.0 for column in network.columns]
    return np.array([values], dtype=object)


def use_estimator(path):
    estimator = ff.load(path)
    estimator.predict(np.zeros((1, estimator.n_features_in_)))
    ff.capture(estimator)


def use_guard(path):
    model = load_guard(path)
    with torch.no_grad():
        model(torch.zeros(1, *model.held.input_shape, dtype=model.dtype))


def read_rows(path):
    open_table(path, impute="mean").sample(3)


def read_pictures(path):
    open_images(path).sample(1)


packed_csv = inside_gzip(any_of(change_bytes, change_cells))
FORMATS = {
    "csv": Format(csv, any_of(change_bytes, change_cells), (read_rows,)),
    "csv.gz": Format(
        lambda: [gzip.compress(each, mtime=0) for each in csv()],
        any_of(change_bytes, packed_csv),
        (read_rows,),
    ),
    "parquet": Format(parquet, change_bytes, (read_rows,)),
    "npy": Format(npy, any_of(change_bytes, change_npy), (read_npy, read_rows, read_pictures)),
    "npz": Format(
        npz, any_of(change_bytes, change_archive), (read_images, read_rows, read_pictures)
    ),
    "idx": Format(idx, change_bytes, (read_idx, read_pictures)),
    "idx.gz": Format(
        idx_gz, any_of(change_bytes, inside_gzip(change_bytes)), (read_idx, read_pictures)
    ),
    "cifar": Format(cifar, change_bytes, (read_cifar_pickle, read_pictures)),
    "cifar.bin": Format(
        cifar_binary, change_bytes, (read_cifar_binary, read_pictures), suffix=".bin"
    ),
    "audit.json": Format(audits, any_of(change_bytes, change_json), (Audit.from_json,)),
    "schema.toml": Format(schemas, change_bytes, (read_schema,)),
    "checkpoint": Format(checkpoints, any_of(change_bytes, change_safetensors), (read_checkpoint,)),
    "estimator": Format(
        estimators, any_of(change_bytes, change_safetensors), (ff.load, use_estimator), 2.0
    ),
    "guard": Format(guards, any_of(change_bytes, change_safetensors), (load_guard, use_guard), 2.0),
    "onnx": Format(
        lambda: [data_of(*image_model()), data_of(*table_model())],
        any_of(change_bytes, rearrange),
        (read_model,),
        2.0,
        ".onnx",
    ),
    "xgboost.json": Format(xgboost_json, any_of(change_bytes, change_json), (read_model,)),
    "xgboost.ubj": Format(xgboost_binary, any_of(change_bytes, rewrite), (read_model,)),
    "lightgbm": Format(lightgbm_text, any_of(change_bytes, change_lines), (read_model,)),
    "catboost": Format(catboost_json, any_of(change_bytes, change_json), (read_model,)),
    "pt2": Format(programs, any_of(change_bytes, change_archive), (read_model,), 2.0, ".pt2"),
}
