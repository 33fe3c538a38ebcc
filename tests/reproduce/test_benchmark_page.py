"""``docs/benchmarks.md`` is what ``benchmarks/results`` says."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import page

    yield page
    sys.modules.pop("benchmarks.page", None)


def test_the_page_is_up_to_date(page):
    message = "run python -m benchmarks.page"
    assert page.PAGE.read_text(encoding="utf-8") == page.render(page.read_results()), message


def test_a_missed_target_is_seen(page):
    verdicts = {
        "time_ratio": {"target": "<= 2", "measured": 3.14159, "met": False},
        "rows": {"target": ">= 5", "measured": 6, "met": True},
    }
    machine = {"cpu": "x", "cores": 2, "python": "3", "torch": "2"}
    numbers = {"rows": 6, "peer": {"version": "1.2", "times_ours": 2.5}, "other": {"version": "no"}}
    result = {"question": "How?", "targets": verdicts, "numbers": numbers}
    result |= {"seconds": 1.5, "environment": machine}
    text = page.render({"speed": result})
    assert "1 of 2 targets are met" in text
    assert "| [speed](#speed) | time ratio | 3.142 | ≤ 2 | **no** |" in text
    assert "time ratio 3.142 (target <= 2, missed)" in text
    assert "How?" in text
    table = "| | version | times ours |\n|---|---|---|\n| peer | 1.2 | 2.5 |\n| other | no |  |"
    assert table in text


def test_every_benchmark_with_results_is_on_the_page(page):
    text = page.PAGE.read_text(encoding="utf-8")
    names = [path.stem for path in (ROOT / "benchmarks" / "results").glob("*.json")]
    assert names
    assert all(f"### {name}\n" in text for name in names)
