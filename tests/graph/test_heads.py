"""Heads: whatever comes out as probabilities is followed as such, or refused; never as logits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F  # noqa: N812 - PyTorch's own convention

import farfield as ff
from farfield.errors import CaptureError
from farfield.graph.mixtures import times

X = torch.randn(32, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def body(outputs, seed=0, hidden=6):
    """A small ReLU network."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(3, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
    return net.double()


class Ending(nn.Module):
    """Networks, and what a function makes of their outputs."""

    def __init__(self, ending, *bodies):
        super().__init__()
        self.bodies = nn.ModuleList(bodies)
        self.ending = ending

    def forward(self, x):
        return self.ending(*[each(x) for each in self.bodies])


def mean_of(network, x=X):
    return network.probabilities(x).mean(dim=0)


def as_two(p):
    """Probabilities of both classes, whichever way they were returned."""
    p = p.reshape(len(p), -1)
    return torch.cat([1 - p, p], dim=1) if p.shape[1] == 1 else p


PAIRS = {
    "cat": lambda f: torch.cat([1 - torch.sigmoid(f), torch.sigmoid(f)], 1),
    "stack": lambda f: torch.stack([1 - f.sigmoid()[:, 0], f.sigmoid()[:, 0]], dim=-1),
    "the other way round": lambda f: torch.cat([f.sigmoid(), 1 - f.sigmoid()], 1),
    "minus plus one": lambda f: torch.cat([-f.sigmoid() + 1, f.sigmoid()], 1),
    "by a matrix": lambda f: f.sigmoid() @ f.new_tensor([[-1.0, 1.0]]) + f.new_tensor([1.0, 0.0]),
    "tanh": lambda f: torch.cat([0.5 - torch.tanh(f) / 2, 0.5 + torch.tanh(f) / 2], 1),
    "one output": lambda f: torch.sigmoid(f),
    "its complement": lambda f: 1 - torch.sigmoid(f)[:, 0],
    "one output by tanh": lambda f: (1 + torch.tanh(f)) / 2,
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_sigmoid_and_its_complement_are_one_logit(name):
    model = Ending(PAIRS[name], body(1))
    network = ff.capture(model, X[:2])
    assert (network.classes, network.one_logit, network.head) == (2, True, "sigmoid")
    torch.testing.assert_close(mean_of(network), as_two(model(X).detach()))
    far = ff.at_infinity(network, X[:4], X[4:8])
    limit = as_two(model(X[:4] + 1e6 * X[4:8]).detach())
    torch.testing.assert_close(far.probabilities[0], limit, rtol=0, atol=1e-6)


def test_the_far_field_of_a_pair_is_blind_as_the_model_is():
    model = Ending(PAIRS["cat"], body(1))
    audit = ff.audit(model, X.numpy(), (X[:, 0] > 0).long().numpy(), directions=20)
    assert audit.blindness["axes"] == 1.0


ENSEMBLES = {
    "mean of a stack": lambda *z: torch.stack([each.softmax(-1) for each in z]).mean(0),
    "sum over their number": lambda *z: sum(each.softmax(-1) for each in z) / len(z),
    "stacked within rows": lambda *z: torch.stack(z, 1).softmax(-1).mean(1),
    "classes before members": lambda *z: torch.stack(z, 2).softmax(1).mean(2),
    "exp of log-softmax": lambda *z: torch.stack([F.log_softmax(e, 1).exp() for e in z]).mean(0),
    "log of the mean": lambda *z: torch.stack([each.softmax(-1) for each in z]).mean(0).log(),
}


@pytest.mark.parametrize("name", ENSEMBLES)
def test_a_mean_of_softmaxes_becomes_instances(name):
    bodies = [body(4, seed) for seed in range(3)]
    model = Ending(ENSEMBLES[name], *bodies)
    network = ff.capture(model, X[:2])
    assert (network.instances, network.classes) == (3, 4)
    assert network.head == ("log-softmax" if "log of" in name else "softmax")
    assert "mean of 3 members" in network.notes[0]
    expected = torch.stack([each(X) for each in bodies]).detach()
    torch.testing.assert_close(network.logits(X), expected)
    alone = ff.capture(bodies, X[:2])
    there, here = (ff.at_infinity(each, X[:4], X[4:8]) for each in (alone, network))
    torch.testing.assert_close(here.probabilities, there.probabilities)


def test_members_of_one_make_are_walked_together():
    model = Ending(ENSEMBLES["mean of a stack"], *[body(4, seed) for seed in range(3)])
    assert len(ff.capture(model, X[:2]).groups) == 1


def test_members_of_different_makes_keep_their_order():
    bodies = [body(4, 0, 5), body(4, 1, 7), body(4, 2, 5)]
    model = Ending(ENSEMBLES["mean of a stack"], *bodies)
    network = ff.capture(model, X[:2])
    assert len(network.groups) == 2
    torch.testing.assert_close(network.logits(X), torch.stack([b(X) for b in bodies]).detach())


def test_members_may_share_a_trunk():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk, self.heads = body(5), nn.ModuleList([body(4, s)[-1:] for s in (1, 2)])

        def forward(self, x):
            h = F.relu(self.trunk(x))
            h = torch.cat([h, h[:, :1]], dim=1)
            return torch.stack([head(h).softmax(-1) for head in self.heads]).mean(0)

    model = Shared().double()
    network = ff.capture(model, X[:2])
    assert network.instances == 2
    torch.testing.assert_close(mean_of(network), model(X).detach())


def test_sigmoids_and_softmaxes_over_two_classes_mix():
    def ending(f, g, z):
        pair = torch.cat([1 - f.sigmoid(), f.sigmoid()], 1)
        other = torch.cat([g.sigmoid(), 1 - g.sigmoid()], 1)
        return (pair + other + z.softmax(-1)) / 3

    model = Ending(ending, body(1, 0), body(1, 1), body(2, 2))
    network = ff.capture(model, X[:2])
    assert (network.instances, network.one_logit) == (3, True)
    torch.testing.assert_close(mean_of(network), model(X).detach())


def test_the_share_of_the_second_class_is_one_logit():
    model = Ending(lambda z: z.softmax(-1)[:, 1], body(2))
    network = ff.capture(model, X[:2])
    assert network.one_logit
    torch.testing.assert_close(mean_of(network)[:, 1], model(X).detach())


@pytest.mark.parametrize("weights", [(0.5, 0.25, 0.25), (0.2, 0.3, 0.5), (1.0, 0.0, 0.0)])
def test_weights_with_a_common_share_become_repeated_instances(weights):
    def ending(*z):
        return sum(w * each.softmax(-1) for w, each in zip(weights, z, strict=True))

    model = Ending(ending, *[body(4, seed) for seed in range(3)])
    network = ff.capture(model, X[:2])
    torch.testing.assert_close(mean_of(network), model(X).detach())


def test_other_weights_are_refused_by_name():
    model = Ending(
        lambda a, b: 0.618034 * a.softmax(-1) + 0.381966 * b.softmax(-1), body(4, 0), body(4, 1)
    )
    with pytest.raises(CaptureError, match=r"weights 0\.618034, 0\.381966"):
        ff.capture(model, X[:2])


@given(st.lists(st.integers(0, 8), min_size=1, max_size=7).filter(any))
def test_whole_weights_are_found_again(counts):
    total = sum(counts)
    found = times([float(torch.tensor(count / total)) for count in counts])
    assert [count * sum(found) for count in counts] == [each * total for each in found]


def test_a_list_of_ensembles_counts_every_model_once():
    pair = Ending(ENSEMBLES["mean of a stack"], body(4, 0), body(4, 1))
    single = Ending(lambda z: z.softmax(-1), body(4, 2))
    network = ff.capture([pair, single], X[:2])
    assert network.instances == 4
    expected = (pair(X) + single(X)).detach() / 2
    torch.testing.assert_close(mean_of(network), expected)


DISTRIBUTIONS = {
    "hard sigmoids": lambda f: torch.cat([1 - F.hardsigmoid(f), F.hardsigmoid(f)], 1),
    "clamped": lambda f: torch.cat([1 - f.clamp(0, 1), f.clamp(0, 1)], 1),
    "one clamped output": lambda f: f.clamp(0, 1),
    "smoothed": lambda f: 0.9 * torch.cat([1 - f.sigmoid(), f.sigmoid()], 1) + 0.05,
    "kept away from the ends": lambda f: torch.cat([1 - f.sigmoid(), f.sigmoid()], 1).clamp(
        1e-7, 1 - 1e-7
    ),
    "classes put together": lambda f: (
        torch.cat([f, -f, f * 2], 1).softmax(-1)
        @ torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]], dtype=torch.float64)
    ),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_other_distributions_are_refused(name):
    with pytest.raises(CaptureError, match="probabilities") as caught:
        ff.capture(Ending(DISTRIBUTIONS[name], body(1)), X[:2])
    assert "return the logits" in str(caught.value)


def test_separate_sigmoids_are_refused():
    model = Ending(lambda f, g: torch.cat([f.sigmoid(), g.sigmoid()], 1), body(1, 0), body(1, 1))
    with pytest.raises(CaptureError, match="multi-label"):
        ff.capture(model, X[:2])


LOGITS = {
    "hidden sigmoids": (nn.Sigmoid(), 2),
    "hidden sigmoids, one logit": (nn.Sigmoid(), 1),
    "hidden tanh": (nn.Tanh(), 3),
}


@pytest.mark.parametrize("name", LOGITS)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1000))
def test_hidden_sigmoids_are_no_head(name, seed):
    activation, outputs = LOGITS[name]
    model = nn.Sequential(body(8, seed), activation, nn.Linear(8, outputs).double())
    network = ff.capture(model, X[:2])
    assert (network.head, network.instances) == ("none", 1)


def test_a_small_logit_is_not_taken_for_a_probability():
    model = nn.Linear(3, 1).double()
    with torch.no_grad():
        model.weight.mul_(1e-3)
        model.bias.fill_(0.5)
    assert (model(X) > 0).all()
    assert (model(X) < 1).all()
    assert ff.capture(model, X[:2]).head == "none"


def test_probabilities_in_pt2_files(tmp_path):
    for rows in (None, ({0: torch.export.Dim.DYNAMIC},)):
        model = Ending(PAIRS["cat"], body(1))
        path = tmp_path / "model.pt2"
        torch.export.save(torch.export.export(model, (X[:4],), dynamic_shapes=rows), path)
        network = ff.capture(path)
        assert network.head == "sigmoid"
        torch.testing.assert_close(mean_of(network), model(X).detach())
