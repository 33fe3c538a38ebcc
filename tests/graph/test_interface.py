"""What models take and return: several tensors, codes of categories, dictionaries, wrappers."""

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import farfield as ff
from farfield.errors import CaptureError, InputError, NotFollowed
from oracles import germ_by_floats

ROWS = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
CODES = torch.tensor([[0, 1], [2, 4], [3, 0], [1, 1]])


@dataclass
class Answer:
    logits: Tensor
    hidden: Tensor


class Returning(nn.Module):
    """Two layers whose answer is wrapped."""

    def __init__(self, how):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        self.how = how

    def forward(self, x):
        return self.how(self.net(x), x)


class AnyArguments(Returning):
    def forward(self, *given):
        return super().forward(given[0])


class Mixed(nn.Module):
    """Numbers, and codes of two columns in one table of embeddings."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.numbers = nn.Embedding(9, 3), nn.Linear(2, 4)
        self.last = nn.Linear(10, 3)
        self.register_buffer("starts", torch.tensor([0, 4]))

    def forward(self, x_num, x_cat):
        embedded = self.table(x_cat + self.starts).flatten(1)
        return {"out": self.last(F.relu(torch.cat([self.numbers(x_num), embedded], 1)))}


class CodesInside(nn.Module):
    """One table whose last two columns are codes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.last = nn.Embedding(4, 2), nn.Linear(9, 3)

    def forward(self, x):
        looked_up = self.table(x[:, 2].long())
        spread = F.one_hot(x[:, 3].long(), 5).to(x.dtype)
        return self.last(torch.cat([x[:, :2], looked_up, spread], 1))


@pytest.mark.parametrize(
    ("how", "output"),
    [
        (lambda z, x: {"logits": z, "hidden": x}, None),
        (Answer, None),
        (lambda z, _: [z], None),
        (lambda z, x: (x, z), 1),
        (lambda z, x: {"a": x, "b": z}, "b"),
        (lambda z, _: (z, torch.arange(3)), None),
    ],
)
def test_the_logits_are_found_in_what_a_model_returns(how, output):
    module = Returning(how)
    network = ff.capture(module, ROWS, output=output)
    torch.testing.assert_close(network.logits(ROWS)[0].float(), module.net(ROWS).detach())


@pytest.mark.parametrize(
    ("how", "output", "message"),
    [
        (lambda z, x: (z, x), None, r"tuple with 2 tensors: 0 .* output=0"),
        (lambda z, _: {"a": z}, "b", "no output 'b'"),
    ],
)
def test_an_answer_that_cannot_be_told_is_asked_for(how, output, message):
    with pytest.raises(CaptureError, match=message):
        ff.capture(Returning(how), ROWS, output=output)


@pytest.mark.parametrize(
    "wrap",
    [
        torch.compile,
        nn.DataParallel,
        torch.jit.script,
        lambda net: torch.jit.trace(net, ROWS),
        lambda net: net.bfloat16(),
        lambda net: net.half(),
    ],
    ids=["compiled", "parallel", "script", "traced", "bfloat16", "half"],
)
def test_wrapped_models_and_half_precision(wrap):
    net = Returning(lambda z, _: z).net
    expected = ff.capture(net, ROWS).logits(ROWS)
    with warnings.catch_warnings():  # PyTorch's own, about TorchScript and its compiler
        warnings.simplefilter("ignore")
        wrapped = wrap(net)
    found = ff.capture(wrapped, ROWS).logits(ROWS)
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)


def test_a_model_that_takes_anything():
    module = AnyArguments(lambda z, _: z)
    assert ff.capture(module, ROWS).classes == 3


def test_frames_name_their_columns():
    frame = pd.DataFrame(ROWS.numpy(), columns=list("abcd"))
    assert ff.capture(Returning(lambda z, _: z), frame).features == ("a", "b", "c", "d")


def test_several_inputs_are_one_table_and_codes_are_categories():
    module = Mixed().double().eval()
    numbers = ROWS[:, :2].double()
    network = ff.capture(module, inputs=(numbers, CODES))
    assert network.features == ("x_num[0]", "x_num[1]", "x_cat[0]", "x_cat[1]")
    assert [column.categories for column in network.columns] == [
        None,
        None,
        (0, 1, 2, 3),
        (0, 1, 2, 3, 4),
    ]
    origin = torch.cat([numbers, CODES.double()], 1)
    direction = torch.zeros(4, 4, dtype=torch.float64)
    direction[:, :2] = ROWS[:, 2:].double()
    far = ff.at_infinity(network, origin, direction, certify=True)

    def answer(rows):
        return module(rows[:, :2], CODES)["out"]

    slope, intercept = germ_by_floats(answer, origin, direction, 1e7)
    torch.testing.assert_close(far.slope[0], slope, rtol=1e-6, atol=2e-6)
    torch.testing.assert_close(far.intercept[0], intercept, rtol=1e-5, atol=2e-5)
    assert bool(far.certified.all())
    with pytest.raises(InputError, match="never scaled"):
        ff.at_infinity(network, origin, torch.ones(4, 4))
    with pytest.raises(InputError, match=r"x_cat\[1\].*row 0 has the value 0.5"):
        network.logits(origin - torch.tensor([0, 0, 0, 0.5]))


def test_codes_that_are_made_inside_are_categories():
    module = CodesInside().double()
    rows = torch.cat([ROWS[:, :2].double(), CODES.double()], 1)
    network = ff.capture(module, rows)
    assert [column.categories for column in network.columns][2:] == [(0, 1, 2, 3), (0, 1, 2, 3, 4)]
    torch.testing.assert_close(network.logits(rows)[0], module(rows).detach())


def test_whole_numbers_of_what_is_no_code_are_refused():
    with pytest.raises(NotFollowed, match="does not look them up"):
        ff.capture(Returning(lambda z, x: z + x[:, :1].long()), ROWS)


def test_heads_are_said_aloud():
    net = Returning(lambda z, _: z)
    assert ff.capture(net, ROWS, head="softmax").classes == 3
    one = ff.capture(net, ROWS, head="multilabel", label=1)
    assert one.one_logit
    torch.testing.assert_close(one.logits(ROWS)[0, :, 1].float(), net(ROWS)[:, 1].detach())
    sure = nn.Sequential(net, nn.Sigmoid())
    assert ff.capture(sure, ROWS, head="multilabel", label=1).head == "sigmoid"


@pytest.mark.parametrize(
    ("said", "error", "message"),
    [
        ({"head": "sigmoid"}, CaptureError, "3 outputs"),
        ({"head": "multilabel"}, NotFollowed, "one at a time"),
        ({"head": "ordinal"}, NotFollowed, "differences of sigmoids"),
        ({"head": "linear"}, InputError, "must be one of"),
        ({"label": 1}, InputError, "head='multilabel'"),
    ],
)
def test_heads_that_are_none(said, error, message):
    with pytest.raises(error, match=message):
        ff.capture(Returning(lambda z, _: z), ROWS, **said)


def test_weights_without_values_are_refused():
    with pytest.raises(CaptureError, match="meta device"):
        ff.capture(nn.Linear(4, 3, device="meta"), ROWS)


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ((torch.zeros(2, 3), torch.zeros(3, 1)), "equally many rows"),
        (torch.zeros(4), "rows first"),
        ([["a", "b"]], "must hold numbers"),
    ],
)
def test_bad_examples(example, message):
    with pytest.raises(InputError, match=message):
        ff.capture(Returning(lambda z, _: z), example)


def test_control_flow_is_named_where_it_is_so():
    with pytest.raises(CaptureError, match="Control flow that depends on the values"):
        ff.capture(Returning(lambda z, x: z if x.sum() > 0 else -z), ROWS)
    with pytest.raises(CaptureError, match=r"Check that the example has the shape") as caught:
        ff.capture(Returning(lambda z, _: z), torch.zeros(2, 5))
    assert "Control flow" not in str(caught.value)


def test_a_pipeline_may_end_in_an_estimator_of_farfield():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(60, 3)) * [1, 10, 100]
    ensemble = ff.EnsembleClassifier(members=2, hidden=(4,), epochs=2, random_state=0)
    model = make_pipeline(StandardScaler(), ensemble).fit(rows, rows[:, 0] > 0)
    network = ff.capture(model)
    assert network.instances == 2
    found = network.probabilities(rows).mean(dim=0).numpy()
    np.testing.assert_allclose(found, model.predict_proba(rows), atol=1e-12)
