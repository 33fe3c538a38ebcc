import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from farfield.errors import InputError
from farfield.guard import guard, load

pytestmark = pytest.mark.usefixtures("few_folds")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "safe.safetensors"


@pytest.fixture(scope="module")
def held(safe, tmp_path_factory):
    """What the file of a guard holds."""
    place = tmp_path_factory.mktemp("archive") / "safe.safetensors"
    safe.save(place)
    return place.read_bytes()


@pytest.fixture
def saved(held, path):
    """A file of its own for each test that changes it."""
    path.write_bytes(held)
    return path


def test_numbers_and_promise_come_back(safe, everywhere, saved):
    again = load(saved)
    assert torch.equal(again(everywhere), safe(everywhere))
    assert again.certificate == safe.certificate
    assert again.certificate.verify(again)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3)
        self.last = nn.Linear(3, 4)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.norm(self.first(x))), 2)
        return torch.softmax(self.last(x.flatten(2).mean(dim=2)), dim=1)


def test_a_model_s_own_code_is_not_needed(path):
    torch.manual_seed(0)
    model = Network()
    model(torch.rand(50, 1, 6, 6))  # gives batch norm its statistics
    images = torch.rand(60, 1, 6, 6)
    safe = guard(model.eval(), images, held_out=None)
    safe.save(path)
    again = load(path)
    assert torch.allclose(again(images), safe(images), atol=1e-5)
    inside = torch.from_numpy(safe.is_inside(images))
    assert torch.allclose(again.probabilities(images)[inside], model(images)[inside], atol=1e-5)


def test_batch_norm_comes_back_bit_by_bit(path):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(5, 32),
        nn.BatchNorm1d(32),
        nn.ReLU(),
        nn.Linear(32, 16),
        nn.BatchNorm1d(16),
        nn.ReLU(),
        nn.Linear(16, 3),
    )
    rows = torch.randn(400, 5) * 3 + 1
    model(rows)
    safe = guard(model.eval(), rows[:100])
    safe.save(path)
    again = load(path)
    assert again.verify()
    assert torch.equal(again(rows), safe(rows))
    inside = safe.is_inside(rows)
    own = torch.softmax(model(rows), dim=1).detach().numpy()
    assert (again.predict_proba(rows) == own).all(axis=1)[inside].all()
    assert again.network.classes == 3


def test_categories_and_ensembles_come_back(mlp, table, path):
    members = [mlp(8, 6, 3, seed=seed) for seed in range(2)]
    for model, options in [
        (members, {"categorical": [(3, 4, 5, 6), 7]}),
        (members[0], {}),
    ]:
        safe = guard(model, table[:150], **options)
        safe.save(path)
        again = load(path)
        x = torch.tensor(np.vstack([table, table * 30]), dtype=torch.float32)
        assert torch.allclose(again(x), safe(x), atol=1e-6)
        assert again.certificate.verify(again)


def test_nothing_is_left_behind_on_failure(safe, tmp_path):
    with pytest.raises(InputError, match="folder"):
        safe.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_missing_and_foreign_files(tmp_path, path):
    with pytest.raises(InputError, match="No such file"):
        load(path)
    path.write_bytes(b"not a file")
    with pytest.raises(InputError, match="damaged"):
        load(path)
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(InputError, match="a farfield file"):
        load(path)


@pytest.mark.parametrize("size", [10, 200, 1500, -40])
def test_truncated_files(saved, size):
    saved.write_bytes(saved.read_bytes()[:size])
    with pytest.raises(InputError, match="damaged"):
        load(saved)


def _rewritten(path, change):
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["farfield"])
    change(header)
    save_file(load_file(path), path, metadata={"farfield": json.dumps(header)})


def test_operations_outside_of_the_rule_table_are_refused(saved):

    def call_something_else(header):
        header["model"]["members"][0]["program"]["steps"][0]["target"] = "aten.from_file.default"

    _rewritten(saved, call_something_else)
    with pytest.raises(InputError, match="from_file"):
        load(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.pop("certificate"),
        lambda h: h["model"].pop("members"),
        lambda h: h["model"]["members"][0]["places"].clear(),
        lambda h: h["model"]["members"][0]["program"].pop("steps"),
        lambda h: h.update(version=99),
        lambda h: h.update(extra=1),
        lambda h: h["covered"].update(views=["balls"]),
        lambda h: h["covered"].update(views=["balls", "ranges", "magic"]),
        lambda h: h["covered"].update(whitened="diagonal"),
        lambda h: h["columns"].update(shape=[7]),
        lambda h: h["certificate"].update(radius=1e-3),
        lambda h: h["certificate"].update(epsilon=1e-3),
        lambda h: h["certificate"].update(classes=0),
        lambda h: h["certificate"].update(epsilon=0.0),
        lambda h: h["model"]["members"][0]["program"].update(width=float("inf")),
    ],
)
def test_damaged_headers(saved, change):
    _rewritten(saved, change)
    with pytest.raises(InputError):
        load(saved)


def test_a_program_that_drops_rows_is_refused(saved):

    def first_rows_only(header):
        program = header["model"]["members"][0]["program"]
        last = {"name": "cut", "target": "aten.slice.Tensor", "kwargs": {}, "module": ""}
        last |= {"args": [{"ref": program["output"]}, 0, 0, 2], "constant": False, "shape": None}
        program["steps"].append(last)
        program["output"] = "cut"

    _rewritten(saved, first_rows_only)
    with pytest.raises(InputError, match="for 3 rows"):
        load(saved)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("covered.unit", lambda t: t * 1e30),
        ("covered.unit", lambda t: t * 0),
        ("covered.views.0.radii", lambda t: t + 100),
        ("covered.views.0.radii", lambda t: t[:-1]),
        ("covered.views.0.centres", lambda t: t[:, :1].contiguous()),
        ("covered.whitened.matrix", lambda t: t * 0),
    ],
)
def test_tampered_numbers_are_refused(saved, name, change):
    from safetensors import safe_open

    with safe_open(saved, framework="pt") as file:
        metadata = file.metadata()
    tensors = load_file(saved)
    tensors[name] = change(tensors[name])
    save_file(tensors, saved, metadata=metadata)
    with pytest.raises(InputError):
        load(saved)


def test_a_function_keeps_its_views_only(moons, path):
    guard(lambda X: np.full((len(X), 2), 0.5), moons[0][:60]).save(path)
    with pytest.raises(InputError, match="no model"):
        load(path)


def test_sizes_are_checked_before_anything_is_read(saved):
    """A sparse file of a terabyte costs nothing to make; reading it would."""
    head = json.dumps(
        {
            "__metadata__": _metadata(saved),
            "covered.fill": {"dtype": "F64", "shape": [2**30], "data_offsets": [0, 2**33]},
        }
    ).encode()
    with saved.open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        file.truncate(8 + len(head) + 2**33)
    with pytest.raises(InputError, match="asks for"):
        load(saved)


def _metadata(path):
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return file.metadata()


def test_programs_that_ask_for_too_much(saved):

    def huge(header):
        step = header["model"]["members"][0]["program"]["steps"][0]
        step["target"] = "aten.full.default"
        step["args"] = {"tuple": [[2**20, 2**20], 1.0]}

    _rewritten(saved, huge)
    with pytest.raises(InputError, match="damaged"):
        load(saved)
