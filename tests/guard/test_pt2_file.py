"""Guards as .pt2 files: read back by our own reader, and refused if anything was changed."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff
from farfield.errors import InputError
from farfield.guard import Certificate, make, read_certificate
from farfield.guard.files import open_guard
from farfield.guard.pt2_file import read_pt2
from saved_programs import rewritten

pytestmark = pytest.mark.usefixtures("few_folds")


def rows_of(table):
    return torch.from_numpy(np.vstack([table, 1.5 * table, 40 * table, 1e8 * table])).float()


CATEGORIES = ["balls", "ranges", "categories", "features"]
WIDE = ["balls", "ranges", "neighbours", "categories", "features"]


def keeping(views, function, model, rows):
    """A guard that keeps some views, whatever they notice."""
    every = ["balls", "ranges", "neighbours", "density", "categories", "features"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make, "choose_views", lambda *_: [every.index(each) for each in views])
        found = function(model, rows, categorical=[(3, 4, 5, 6), 7])
    assert [each.name for each in found.certificate.views] == views
    return found


@pytest.fixture(scope="module")
def guarded(mlp, table, tmp_path_factory):
    """A guarded network with categories that looks at its features, and its file."""
    path = tmp_path_factory.mktemp("pt2") / "safe.pt2"
    safe = keeping(CATEGORIES, ff.guard, mlp(8, 6, 3), table)
    safe.to_pt2(path)
    return safe, path


@pytest.fixture(scope="module")
def wide(table):
    """More columns than principal components, whose units share their numbers with all others."""
    rng = np.random.default_rng(0)
    return np.hstack([table, rng.normal(size=(300, 70)) @ rng.normal(size=(70, 62))])


@pytest.fixture(scope="module")
def enveloped(mlp, wide, tmp_path_factory):
    """A network that returns probabilities and works in place, its envelope, and the file."""
    path = tmp_path_factory.mktemp("pt2") / "safe.pt2"
    net = nn.Sequential(*mlp(70, 6, 3), nn.Softmax(dim=1))
    net[1] = nn.ReLU(inplace=True)
    found = keeping(WIDE, ff.envelope, net, wide)
    assert found.guard.covered.reduced is not None
    found.to_pt2(path)
    return net, found, path


def test_a_guard_is_verified_from_its_file(guarded, table):
    safe, path = guarded
    certificate, proof = open_guard(path)
    assert proof
    assert certificate == safe.certificate
    assert certificate.views[-1].name == "features"
    assert Certificate.from_json(read_certificate(path)) == safe.certificate
    rows = rows_of(table)
    assert torch.equal(torch.export.load(path).module()(rows), safe(rows))


def test_an_envelope_says_what_python_says(enveloped, wide):
    net, found, path = enveloped
    assert open_guard(path)[1]
    names = {"farfield.guard": ""}
    rows = torch.cat([rows_of(wide), torch.full((1, 70), torch.nan)])
    program = torch.export.load(path, extra_files=names).module()
    said = program(rows)
    look, names = found.look(rows), json.loads(names["farfield.guard"])
    assert torch.equal(said["output"][:-1], net(rows)[:-1])
    assert np.array_equal(said["inside"].numpy(), look.inside)
    assert np.array_equal(said["distance"].numpy(), look.distance)
    assert np.array_equal(np.array(names["views"])[said["view"]], look.view)
    assert np.array_equal(np.array(names["names"])[said["column"]], look.column)
    assert np.array_equal(said["guarded"].numpy(), look.guarded)
    assert torch.equal(said["guarded"][said["inside"]], net(rows)[said["inside"]])
    assert not said["inside"][-1]
    assert torch.allclose(said["guarded"][-1], torch.tensor(1 / 3))
    assert len(program(rows[:2])["inside"]) == 2


def changed(path, member, change):
    """A file in which the JSON of one member was changed."""

    def passed(name, data):
        if not name.endswith(member):
            return data
        said = json.loads(data)
        change(said)
        return json.dumps(said).encode()

    return rewritten(path, passed)


def graph_of(said):
    return said["graph_module"]["graph"]


def node_of(said, target, place=0):
    found = [
        n for n in graph_of(said)["nodes"] if n["target"].startswith(f"torch.ops.aten.{target}")
    ]
    return found[place]


def swap_output(said):
    """Give out what the model says, past the guard."""
    last = node_of(said, "linear", -1)["outputs"][0]["as_tensor"]["name"]
    graph_of(said)["outputs"][0]["as_tensor"]["name"] = last
    said["graph_module"]["signature"]["output_specs"][0]["user_output"]["arg"]["as_tensor"][
        "name"
    ] = last


def write_into_the_guard(said):
    """Let the model change a number of the guard before the mixture."""
    specs = said["graph_module"]["signature"]["input_specs"]
    name = next(
        spec["buffer"]["arg"]["name"]
        for spec in specs
        if "buffer" in spec and spec["buffer"]["buffer_name"] == "covered.unit"
    )
    node_of(said, "linear")["inputs"][2]["arg"] = {"as_tensor": {"name": name}}


def read_distances(said):
    """Let the model read, and perhaps write, what the guard computed."""
    made = node_of(said, "square")["outputs"][0]["as_tensor"]["name"]
    node_of(said, "linear")["inputs"][0]["arg"]["as_tensor"]["name"] = made


CHANGES = {
    "another constant": lambda said: node_of(said, "add")["inputs"][1]["arg"].update(as_float=2.0),
    "another operation": lambda said: node_of(said, "amin").update(
        target="torch.ops.aten.amax.default"
    ),
    "an operation less": lambda said: graph_of(said)["nodes"].pop(8),
    "past the guard": swap_output,
    "into the guard": write_into_the_guard,
    "out of the guard": read_distances,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_program_that_was_changed(guarded, change):
    with pytest.raises(InputError):
        read_pt2(changed(guarded[1], "models/model.json", CHANGES[change]))


def test_numbers_that_were_changed(guarded):
    """Any number of the guard, and any claim that is made stronger."""
    _, path = guarded
    found = []

    def index(name, data):
        if name.endswith("model_weights_config.json"):
            found.append(json.loads(data)["config"])
        return data

    rewritten(path, index)
    places = {k: v["path_name"] for k, v in found[0].items() if k.startswith("covered.")}
    assert len(places) > 15
    for fqn, place in places.items():

        def change(name, data, place=place):
            if not name.endswith(f"data/weights/{place}"):
                return data
            values = np.frombuffer(data, "<f8") * 1.25 + 1.0
            return values.tobytes()

        refused = False
        try:
            refused = not read_pt2(rewritten(path, change))[1]
        except InputError:
            refused = True
        assert refused or fqn == "covered.fill", fqn  # NaN stays NaN
    stronger = changed(
        path, "farfield.certificate", lambda said: said.update(radius=said["radius"] / 2)
    )
    assert not read_pt2(stronger)[1]


def test_what_holds_no_guard(tmp_path, mlp):
    program = torch.export.export(mlp(2, 2), (torch.zeros(2, 2),))
    torch.export.save(program, tmp_path / "plain.pt2")
    (tmp_path / "text.pt2").write_text("text")
    for name in ("plain.pt2", "text.pt2", "none.pt2"):
        with pytest.raises(InputError):
            read_pt2(tmp_path / name)
