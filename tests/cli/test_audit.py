"""farfield train, audit and report, from files to exit codes."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import farfield as ff
from farfield.cli import farfield as command
from farfield.errors import InputError


def invoke(*args):
    return CliRunner().invoke(command, [str(arg) for arg in args])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with a category and a bounded column, and an estimator trained on it."""
    home = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    age, sat = rng.normal(60, 12, 80), rng.uniform(80, 100, 80)
    ward = rng.choice(["icu", "er"], 80)
    died = np.where((age - 60) / 12 - (sat - 90) / 8 + (ward == "icu") > 0, "died", "lived")
    for name, shift in (("train.csv", 0), ("other.csv", 40)):
        rows = zip(age + shift, sat, ward, died, strict=True)
        lines = [f"{a:.3f},{s:.2f},{w},{d}" for a, s, w, d in rows]
        (home / name).write_text("\n".join(["age,saturation,ward,outcome", *lines]) + "\n")
    (home / "schema.toml").write_text('[features.saturation]\nmin = 0\nmax = 100\nunit = "%"\n')
    result = invoke(
        "train", "ensemble", "--data", home / "train.csv", "--label", "outcome", "--epochs", 5,
        "--hidden", "8", "--set", "members=2", "-o", home / "model.safetensors",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "training accuracy" in result.output
    return home


FEW = ("--directions", 3, "--samples", 20)


def audit(folder, *more):
    """Audit the estimator, without a guard."""
    return invoke(
        "audit", folder / "model.safetensors", "--data", folder / "train.csv", "--label", "outcome",
        *FEW, "--out", folder / "out", "--no-guard", *more,
    )  # fmt: skip


def test_train_saves_an_estimator_that_knows_its_columns(folder):
    model = ff.load(folder / "model.safetensors")
    assert len(model.instances_) == 2
    assert list(model.classes_) == ["died", "lived"]
    assert list(model.feature_names_in_) == ["age", "saturation", "ward=er", "ward=icu"]


def test_audit_writes_its_two_files_and_says_what_it_found(folder):
    options = ("--schema", folder / "schema.toml", "--ood", f"other={folder}/other.csv")
    result = invoke(
        "audit", folder / "model.safetensors", "--data", folder / "train.csv", "--label", "outcome",
        *FEW, "--out", folder / "out", *options,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["audit.json", "report.html"]
    assert "report.html" in result.output
    found = ff.Audit.from_json(folder / "out" / "audit.json")
    kinds = {feature.name: feature.kind for feature in found.features}
    assert kinds == {"age": "numeric", "saturation": "bounded", "ward": "categorical"}
    assert found.features[1].unit == "%"
    assert found.features[1].up.bound == 100.0
    assert found.out_sets[0].name == "other"
    assert found.model.sha256 is not None


def test_json_is_the_audit_and_nothing_else_and_the_exit_code_its_verdict(folder):
    result = audit(folder, "--max-blind", 1, "--json")
    assert json.loads(result.stdout)["schema_version"] == 1
    assert result.exit_code == 0


def test_quiet_says_nothing_and_leaves_the_exit_code(folder):
    result = audit(folder, "--max-blind", 0, "--quiet")
    assert (result.stdout, result.exit_code) == ("", 1)


def test_report_renders_again_without_the_model(folder, tmp_path):
    assert r"\begin{tab" in audit(folder, "--latex").stdout
    source = tmp_path / "audit.json"
    source.write_bytes((folder / "out" / "audit.json").read_bytes())
    result = invoke("report", source, "-o", tmp_path / "page.html")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "page.html").read_bytes() == (folder / "out" / "report.html").read_bytes()
    assert invoke("report", source, "--quiet").stdout == ""
    assert (tmp_path / "report.html").is_file()


def test_onnx_and_pt2_files_and_folders_of_them(folder, tmp_path):
    torch.manual_seed(0)
    (tmp_path / "models").mkdir()
    for seed in range(2):
        model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
        exported = torch.export.export(model, (torch.zeros(2, 2),))
        torch.export.save(exported, tmp_path / "models" / f"{seed}.pt2")
    np.savez(tmp_path / "d.npz", X=np.random.default_rng(0).standard_normal((30, 2)))
    options = ("--data", tmp_path / "d.npz", "--out", tmp_path / "out", *FEW, "--no-guard")
    result = invoke("audit", tmp_path / "models", *options)
    assert result.exit_code == 0, result.output
    assert ff.Audit.from_json(tmp_path / "out" / "audit.json").model.instances == 2
    both = [tmp_path / "models" / f"{seed}.pt2" for seed in range(2)]
    assert invoke("audit", *both, *options).exit_code == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--ood", "nothing"), "NAME=FILE"),
        (("--pair", "age"), "two features"),
        (("--pair", "age,ward"), "ward"),
        (("--label", "nobody"), "nobody"),
        (("--categorical", "nobody"), "nobody"),
        (("--schema", "nowhere.toml"), "nowhere.toml"),
    ],
)
def test_bad_input_is_one_message(folder, more, message):
    result = audit(folder, *more)
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)


def test_a_table_without_a_column_the_model_needs(folder, tmp_path):
    text = (folder / "train.csv").read_text().replace("age,", "years,")
    (tmp_path / "t.csv").write_text(text)
    result = invoke(
        "audit", folder / "model.safetensors", "--data", tmp_path / "t.csv", "--label", "outcome"
    )
    assert isinstance(result.exception, InputError)
    assert "age" in str(result.exception)


def test_columns_are_matched_by_name_and_forgotten_options_are_told(folder, tmp_path):
    """Another order, other spelling, another delimiter, decimal commas, more columns, no label."""
    frame = pd.read_csv(folder / "train.csv")
    frame.insert(0, "Patient ID", [f"p{k}" for k in range(len(frame))])
    changed = frame[["outcome", "ward", "Patient ID", "saturation", "age"]]
    changed = changed.rename(columns={"saturation": "Saturation ", "age": "AGE"})
    changed.to_csv(tmp_path / "changed.csv", index=False, sep=";", decimal=",")
    arguments = ["audit", folder / "model.safetensors", *FEW, "--no-guard", "--out", tmp_path]
    arguments += ["--data"]
    result = invoke(*arguments, tmp_path / "changed.csv")
    assert result.exit_code == 0, result.output
    found = ff.Audit.from_json(tmp_path / "audit.json")
    assert invoke(*arguments, folder / "train.csv", "--label", "outcome").exit_code == 0
    plain = ff.Audit.from_json(tmp_path / "audit.json")
    assert found.health == plain.health
    assert {each.name.strip().casefold() for each in found.features} == {
        each.name for each in plain.features
    }
    told = " ".join(found.data.notes)
    for part in (
        "separated by ';'",
        "decimal comma",
        "'outcome' was taken",
        "'Patient ID'",
        "order",
    ):
        assert part in told
    assert "Note: Columns are separated by ';'." in result.output
    assert plain.data.notes == ()


def test_options_that_messages_advise_do_what_they_say(folder, tmp_path):
    frame = pd.read_csv(folder / "train.csv")
    frame.assign(note=frame["age"]).to_csv(tmp_path / "more.csv", index=False, sep="|")
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    torch.export.save(torch.export.export(network, (torch.zeros(2, 4),)), tmp_path / "m.pt2")
    arguments = [
        "audit",
        tmp_path / "m.pt2",
        "--data",
        tmp_path / "more.csv",
        "--label",
        "outcome",
    ]
    arguments += [*FEW, "--no-guard", "--out", tmp_path / "out", "--delimiter", "|"]
    refused = invoke(*arguments)
    assert "--ignore COLUMN" in str(refused.exception)
    assert invoke(*arguments, "--ignore", "note").exit_code == 0
    wrong = invoke(*arguments, "--ignore", "note", "--label-kind", "number")
    assert "is not numbers" in str(wrong.exception)


def test_a_factory_runs_only_when_it_may(folder, tmp_path):
    result = invoke("audit", "os:getcwd", "--data", folder / "train.csv", "--label", "outcome")
    assert isinstance(result.exception, InputError)
    assert "--allow-code" in str(result.exception) or "allow_code" in str(result.exception)


def test_an_unwritable_place_leaves_nothing(folder, tmp_path):
    (tmp_path / "file").write_text("here")
    result = audit(folder, "--out", tmp_path / "file" / "inside")
    assert isinstance(result.exception, InputError)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_interrupt_leaves_no_half_written_file(folder, tmp_path, nursery):
    """Ctrl-C in the middle of an audit, sent by the audit itself so that it always comes there.

    Jobs in the background are started with the signal ignored, and so are their children.
    """
    code = (
        "import os, signal, farfield.audit.case as case\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "case.Case.stage = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n"
        "from farfield.cli import main; main()"
    )
    arguments = ["audit", folder / "model.safetensors", "--data", folder / "train.csv", "--label"]
    arguments += ["outcome", *FEW, "--out", tmp_path / "out"]
    done = nursery.run(code, *arguments)
    assert done.returncode == 130, done.stderr
    assert b"interrupted" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "members"), "NAME=VALUE"),
        (("--set", "colour=red"), "colour"),
        (("--hidden", "eight"), "--hidden"),
        (("--objective", "luck"), "luck"),
    ],
)
def test_bad_training_options_are_named(folder, arguments, message):
    result = invoke(
        "train", "relu", "--data", folder / "train.csv", "--label", "outcome", "-o",
        folder / "x.safetensors", *arguments,
    )  # fmt: skip
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert not (folder / "x.safetensors").exists()


def test_the_seed_is_a_setting_too(folder, tmp_path):
    common = ["train", "relu", "--data", folder / "train.csv", "--label", "outcome", "--epochs", 1]
    for name, more in (("set", ("--set", "random_state=3")), ("seed", ("--seed", "3"))):
        assert invoke(*common, *more, "-o", tmp_path / f"{name}.safetensors").exit_code == 0
    assert ff.load(tmp_path / "set.safetensors").random_state == 3
    first, second = (ff.load(tmp_path / f"{name}.safetensors") for name in ("set", "seed"))
    for one, other in zip(first.module_.parameters(), second.module_.parameters(), strict=True):
        assert bool((one == other).all())


def test_training_says_how_the_table_was_read(tmp_path):
    rows = "".join(f"{place % 7 or ''},{place % 5},{'ab'[place % 2]}\n" for place in range(30))
    (tmp_path / "gaps.csv").write_text("x,z,y\n" + rows)
    done = invoke(
        "train", "relu", "--data", tmp_path / "gaps.csv", "--label", "y", "--epochs", 1, "--quiet",
        "--impute", "median", "-o", tmp_path / "x.safetensors",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "x" in done.stderr
    assert done.stderr.startswith("farfield: ")
    assert done.stdout == ""
