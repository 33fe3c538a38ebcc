"""``farfield schema``: from data to a file that an audit reads."""

import numpy as np
import pytest
from click.testing import CliRunner

import farfield as ff
from farfield.cli import farfield
from farfield.errors import InputError

RNG = np.random.default_rng(0)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "train.csv"
    ages = RNG.uniform(20, 90, 80)
    rows = [f"{age:.1f},{at % 2},1,{int(age > 50)}" for at, age in enumerate(ages)]
    path.write_text("\n".join(["age,smoker,site,outcome", *rows]))
    return path


def run(*arguments):
    return CliRunner().invoke(farfield, [str(each) for each in arguments], catch_exceptions=False)


def test_a_schema_is_proposed_and_read(table, tmp_path):
    out = tmp_path / "schema.toml"
    said = run("schema", "--data", table, "-o", out)
    assert said.exit_code == 0
    assert "read it before you use it" in said.output
    found = ff.data.read_schema(out)
    assert found.label.column == "outcome"
    assert found["age"].low == 0.0
    assert run("schema", "--data", table).output == out.read_text(encoding="utf-8")


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="nothing"):
        run("schema", "--data", tmp_path / "nothing.csv")


def test_an_audit_moves_only_what_can_move(table, tmp_path):
    """A 0/1 column is a category, a constant one stays, and below 0 there is no direction."""
    out = tmp_path / "schema.toml"
    run("schema", "--data", table, "-o", out)

    def model(rows):
        p = 1 / (1 + np.exp(-(np.asarray(rows)[:, 0] - 50) / 5))
        return np.column_stack([1 - p, p])

    audit = ff.audit(model, table, schema=out, directions=5)
    age, smoker, site = audit.features
    assert (age.kind, age.down.bound, age.up.bound) == ("bounded", 0.0, None)
    assert smoker.kind == "categorical"
    assert [(each.value, each.rows) for each in smoker.values] == [("0", 40), ("1", 40)]
    assert site.up is None
    (axes,) = [family for family in audit.families if family.name == "axes"]
    assert axes.rays == 1
    assert {flip.column for flip in audit.flips} == {"age", "smoker"}
    errors = {(each.column, each.error) for each in audit.entry_errors.mistakes}
    assert ("smoker", "coded 1 and 2") in errors
    assert ("smoker", "times 10") not in errors
