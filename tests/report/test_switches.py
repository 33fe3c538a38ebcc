"""Words about the last switch: splits of trees, neurons of networks, none of neighbours."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import farfield as ff
from farfield.report.content.glossary import words_used
from farfield.report.content.sections import settled_told
from farfield.report.content.switches import beyond_told, made_of, switch_told


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    return X, (X[:, 0] + X[:, 1] > 0).astype(int)


def audited(model, data):
    return ff.audit(model.fit(*data), *data, samples=20, directions=5)


@pytest.fixture(scope="module")
def of_trees(data):
    model = make_pipeline(StandardScaler(), RandomForestClassifier(3, random_state=0))
    return audited(model, data)


def test_a_report_of_trees_does_not_speak_of_networks(of_trees, tmp_path):
    audit = of_trees
    page = audit.to_html(tmp_path / "trees.html").read_text("utf-8")
    body = page[page.index("<body") : page.index("<script", page.index("<body"))]
    assert "thresholds and leaves" in made_of(audit)
    assert beyond_told(audit) == "Beyond the last switch of a split nothing changes."
    assert all("nothing changes beyond" in switch_told(each, audit) for each in audit.families)
    assert "Pipeline of RandomForestClassifier" in body
    for word in ("neuron", "ReLU", "parameter", "logits are", "CEDA"):
        assert word not in body, word
    assert "orthants" in audit.blindness
    assert "All features at once" in str(audit)


def test_rays_of_trees_have_their_first_crossing_and_pieces(of_trees):
    assert all(ray.pieces for ray in of_trees.rays)
    assert all(ray.first is not None for ray in of_trees.rays)


def test_networks_keep_their_neurons(data):
    audit = audited(ff.ReLUClassifier(hidden=(6,), epochs=2, random_state=0), data)
    assert "neuron" in beyond_told(audit)
    assert "parameters" in made_of(audit)
    assert "may still change" in switch_told(audit.families[0], audit)
    assert "split" not in dict(words_used(audit))["Reach, the last switch"]


def test_nothing_switches_in_a_linear_model(data):
    audit = audited(LogisticRegression(), data)
    assert not any(switch_told(each, audit) for each in audit.families)
    assert "neuron" not in beyond_told(audit)
    assert "Reach, the last switch" not in dict(words_used(audit))


def test_a_distance_that_nobody_knows_is_said_once(data):
    audit = audited(GaussianNB(), data)
    assert {settled_told(each, audit) for each in audit.families} == {"not known"}


def test_neighbours_have_no_last_switch_but_their_rows(data):
    audit = audited(KNeighborsClassifier(3), data)
    assert not any(switch_told(each, audit) for each in audit.families)
    assert beyond_told(audit) == ""
    assert audit.model.parameters == data[0].size + len(data[1])
    assert "Reach, the last switch" not in dict(words_used(audit))
