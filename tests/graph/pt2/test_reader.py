"""Exported programs read from files, against the same programs in memory."""

import json
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn
from torch._export.serde.schema import SCHEMA_VERSION

import farfield as ff
from farfield.errors import CaptureError, UnsupportedOperation
from farfield.graph.pt2.schema import MAJOR, NEWEST_MINOR
from farfield.networks.lenet import lenet
from saved_programs import check_saved, rewritten, save
from small_networks import short_resnet


class Busy(nn.Module):
    """Shared weights, unsaved buffers, constants, sizes, steps in place, several results."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.view_ = nn.Parameter(torch.randn(8, 6).t()[:, ::2])
        self.register_buffer("shift", torch.randn(6), persistent=False)
        self.register_buffer("places", torch.tensor([3, 1, 0]))

    def forward(self, x):
        x = x.view(x.shape[0] * 2 // 2, -1)
        x = self.second(torch.relu_(self.first(x))) + self.shift
        left, right = (x @ self.view_).split(2, 1)
        top = left.max(1).values[:, None]
        fixed = torch.tensor([[1.0, 2.0]]).expand(x.shape[0], 2)
        x = torch.cat([left, right, top, fixed, torch.zeros(x.shape[0], 1)], 1)
        return nn.functional.hardtanh(x, -float("inf"), 3)[:, self.places]


MODULES = {
    "busy": (Busy(), (2, 3)),
    "lenet": (lenet(), (1, 28, 28)),
    "resnet": (short_resnet(), (3, 8, 8)),
    "half": (nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).half(), (3,)),
    "softmax": (nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2), nn.Softmax(-1)), (3,)),
    "one": (nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1), nn.Sigmoid()), (3,)),
    "layers": (
        nn.Sequential(
            *(nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4, affine=False), nn.LeakyReLU(0.1)),
            *(nn.ELU(), nn.SELU(), nn.CELU(2.0), nn.SiLU(), nn.Mish(), nn.Softplus(2.0)),
            *(nn.Hardtanh(-2, 3), nn.Hardsigmoid(), nn.Hardswish(), nn.GELU(), nn.Tanh()),
            *(nn.Dropout(0.2), nn.Linear(4, 2), nn.LogSoftmax(1)),
        ),
        (3,),
    ),
    "dropout": (nn.Sequential(nn.Dropout(), nn.Linear(3, 2), nn.BatchNorm1d(2)), (3,)),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_file_is_the_program_to_the_bit(name, tmp_path):
    module, shape = MODULES[name]
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(3, *shape, generator=generator).to(next(module.parameters()).dtype)
    check_saved(module.eval(), rows, tmp_path / "model.pt2")


class Mixing(nn.Module):
    """Tokens mixed in the ways that read two values and more at once, and a recurrent layer."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 16, 8) / 4)
        self.recurrent = nn.GRU(8, 24, batch_first=True)
        self.last = nn.Linear(24, 3)

    def forward(self, x):
        heads = torch.einsum("bti,hij->bhtj", x, self.weight)
        shares = torch.einsum("bhtj,bhsj->bhts", heads, heads).softmax(-1)
        attended = nn.functional.scaled_dot_product_attention(heads, shares @ heads, heads)
        return self.last(self.recurrent(attended.mean(1)[:, ::16])[0][:, -1])


def test_files_of_the_size_that_networks_have(tmp_path):
    """A layer may read each of its numbers with each of another value's, not with all at once."""
    module, path = Mixing().eval(), tmp_path / "model.pt2"
    rows = torch.randn(3, 128, 16, generator=torch.Generator().manual_seed(0))
    save(module, rows, path)
    network = ff.capture(path)
    expected = ff.capture(module, rows).logits(rows)
    torch.testing.assert_close(network.logits(rows), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("shape", [(6,), (2, 3)])
def test_a_fixed_number_of_rows(tmp_path, rows, shape):
    flat = [nn.Flatten()] if len(shape) > 1 else []
    model = nn.Sequential(*flat, nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2)).double()
    path = tmp_path / "model.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(model, (torch.randn(rows, *shape).double(),)), path)
    network = ff.capture(str(path))
    x = torch.randn(7, *shape).double()
    assert network.input_shape == shape
    torch.testing.assert_close(network.logits(x)[0], model(x).detach())


@pytest.mark.whole
def test_plain_layers_need_no_tracing(tmp_path):
    layers = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout())
    save(nn.Sequential(layers, nn.Linear(8, 2)).eval(), torch.zeros(2, 2), tmp_path / "plain.pt2")
    code = """
import sys, farfield
farfield.capture(sys.argv[1])
print(*(name for name in ("torch._dynamo", "sympy", "sklearn") if name in sys.modules))
"""
    found = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "plain.pt2"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.split() == []


def test_layers_that_do_not_fit_are_refused_as_by_tracing(tmp_path):
    save(nn.Linear(2, 3), torch.zeros(2, 2), tmp_path / "model.pt2")

    def wider(name, data):
        if not name.endswith("models/model.json"):
            return data
        tree = json.loads(data)
        values = tree["graph_module"]["graph"]["tensor_values"]
        source = next(
            spec["user_input"]["arg"]["as_tensor"]["name"]
            for spec in tree["graph_module"]["signature"]["input_specs"]
            if "user_input" in spec
        )
        values[source]["sizes"][1] = {"as_int": 5}
        return json.dumps(tree).encode()

    with pytest.raises(CaptureError, match="holds a broken program"):
        ff.capture(rewritten(tmp_path / "model.pt2", wider))


def test_operations_that_are_not_known_are_listed_with_their_place(tmp_path):
    class Strange(nn.Linear):
        def forward(self, x):
            return torch.special.bessel_j0(super().forward(x)).digamma()

    save(Strange(2, 3), torch.zeros(2, 2), tmp_path / "model.pt2")
    with pytest.raises(UnsupportedOperation, match=r"(?s)2 operations.*bessel_j0.*digamma.*rules"):
        ff.capture(tmp_path / "model.pt2")


def test_operations_without_a_rule_are_told_as_for_a_module(tmp_path):
    class Wave(nn.Linear):
        def forward(self, x):
            return torch.sin(super().forward(x))

    save(Wave(2, 3), torch.zeros(2, 2), tmp_path / "model.pt2")
    with pytest.raises(
        UnsupportedOperation, match=r"no rule at infinity:\n  aten\.sin  in the mod"
    ):
        ff.capture(tmp_path / "model.pt2")


def test_what_a_model_takes_and_returns(tmp_path):
    class Pair(nn.Linear):
        def forward(self, x):
            return super().forward(x), x

    class Alone(nn.Linear):
        def forward(self, x):
            return (super().forward(x),)

    for kind, message in ((Pair, "tuple with 2 tensors"), (Alone, "tuple with 1 tensors")):
        save(kind(2, 3), torch.zeros(2, 2), tmp_path / "model.pt2")
        with pytest.raises(CaptureError, match=message):
            ff.capture(tmp_path / "model.pt2")
    two = nn.Bilinear(2, 2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(two, (torch.zeros(2, 2), torch.zeros(2, 2)))
        torch.export.save(program, tmp_path / "two.pt2")
    with pytest.raises(CaptureError, match="takes 2 inputs"):
        ff.capture(tmp_path / "two.pt2")


def test_the_schema_is_the_one_that_the_installed_torch_writes(tmp_path):
    assert SCHEMA_VERSION[0] == MAJOR
    assert SCHEMA_VERSION[1] <= NEWEST_MINOR
    save(nn.Linear(2, 3), torch.zeros(2, 2), tmp_path / "model.pt2")

    def newer(name, data):
        if not name.endswith("models/model.json"):
            return data
        tree = json.loads(data)
        tree["schema_version"]["minor"] = NEWEST_MINOR + 1
        return json.dumps(tree).encode()

    with pytest.raises(CaptureError, match=r"version than 8\.0 to 8\.20.*schema_version\.minor"):
        ff.capture(rewritten(tmp_path / "model.pt2", newer))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_truncated_files(tmp_path, share):
    save(nn.Linear(2, 3), torch.zeros(2, 2), tmp_path / "model.pt2")
    data = (tmp_path / "model.pt2").read_bytes()
    broken = tmp_path / "broken.pt2"
    broken.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(CaptureError, match=r"not a \.pt2 archive|not an archive of"):
        ff.capture(broken)


def test_files_that_are_something_else(tmp_path):
    with pytest.raises(CaptureError, match="no file"):
        ff.capture(tmp_path / "missing.pt2")
    other = tmp_path / "other.pt2"
    torch.save({"weight": torch.zeros(2)}, other)
    with pytest.raises(CaptureError, match=r"not an archive of torch\.export"):
        ff.capture(other)
    with pytest.raises(CaptureError, match=r"\.h5 suffix"):
        ff.capture(tmp_path / "model.h5")
