"""An audit as text: complete, and harmless to terminals."""

import io
from dataclasses import replace
from itertools import cycle

import pytest
from rich.console import Console

from farfield.audit.fields.entry import EntryErrors
from farfield.report.content.entry_errors import swaps_tried
from farfield.report.content.listings import families, features, listings
from farfield.report.content.words import number
from farfield.report.text import format_audit, print_audit
from report import sample_audits as samples


@pytest.mark.parametrize("name", samples.EVERY)
def test_plain_text_has_no_control_characters(name):
    text = format_audit(samples.EVERY[name]())
    assert not [each for each in text if ord(each) < 32 and each != "\n"]
    assert not set("\x7f\x9b\u202e\u2066\u2028") & set(text)
    assert text == str(samples.EVERY[name]())


def test_the_essentials_are_there():
    text = format_audit(samples.tabular())
    assert text.startswith("Failed: 5% allowed. 100% of directions")
    assert "99.8% (99.49% to 99.95%)" in text
    assert "12 of 30 features" in text
    assert "Accuracy" in text
    assert "(best" in text
    assert "farfield guard model.onnx" in text


def test_the_largest_numbers_are_written_though_they_round_to_more():
    assert number(1.797e308) == "1.8e308"
    assert number(-1.797e308) == "\N{MINUS SIGN}1.8e308"


def test_pairs_that_were_swapped_are_told():
    made = EntryErrors(20, 30, 0.01, (), 20, swaps=(41, 435))
    told = swaps_tried(replace(samples.tabular(), entry_errors=made))
    assert told.startswith("Of 435 pairs of numeric columns 41 were swapped: neighbours, and")
    every = replace(made, swaps=(1, 1))
    assert swaps_tried(replace(samples.tabular(), entry_errors=every)) == ""
    assert swaps_tried(samples.tabular()) == ""


def test_warnings_come_before_anything_else():
    audit = replace(samples.tabular(), warnings=("Columns do not fit.", "Nothing fits."))
    text = format_audit(audit)
    assert text.startswith("Warning: Columns do not fit.\n\nWarning: Nothing fits.\n\nFailed:")
    file = io.StringIO()
    print_audit(audit, Console(file=file, width=140))
    assert file.getvalue().startswith("Warning: Columns do not fit.\nWarning: Nothing fits.\n")
    assert audit.to_json().startswith('{\n "warnings": [\n  "Columns do not fit."')


def test_rows_come_by_how_soon_the_model_is_sure():
    audit = samples.tabular()
    features = {listing.head[0]: listing for listing in listings(audit, None)}["Feature"]
    assert len(features.rows) == 30
    assert features.note == ""
    nearest = {each.name: min(each.down.beyond[1], each.up.beyond[1]) for each in audit.features}
    order = [nearest[row[0]] for row in features.rows]
    assert order == sorted(order)


@pytest.mark.parametrize(("name", "width"), [*zip(samples.EVERY, cycle([40, 120]), strict=False)])
def test_colour_is_for_terminals_only(name, width):
    audit = samples.EVERY[name]()
    piped, shown = io.StringIO(), io.StringIO()
    print_audit(audit, Console(file=piped, width=width))
    print_audit(
        audit, Console(file=shown, width=width, force_terminal=True, color_system="standard")
    )
    assert "\x1b" not in piped.getvalue()
    assert "\x1b[" in shown.getvalue()


def test_names_are_not_read_as_markup():
    file = io.StringIO()
    base = samples.mixed()
    odd = replace(base.features[0], name="[bold red]age[/]")
    console = Console(file=file, width=140)
    print_audit(replace(base, features=(odd, *base.features[1:])), console)
    assert "[bold red]age[/]" in file.getvalue()


def with_end(audit, **changes):
    """The same audit with the upper end of its first feature changed."""
    first, *rest = audit.features
    return replace(audit, features=(replace(first, up=replace(first.up, **changes)), *rest))


def test_the_value_reached_is_told_and_marked_where_no_data_has_its_sign():
    audit = with_end(samples.tabular(), value=(1.0, -612.0, 3.0), beyond=(0.0, 2.5, 3.0))
    first = replace(audit.features[0], low=18.0, high=90.0, unit="mg/dL")
    audit = replace(audit, features=(first,))
    (row,) = features(audit).rows
    assert row[-1] == "\N{MINUS SIGN}612 mg/dL (2.5 sd beyond; never negative in the data)"
    (row,) = features(replace(audit, features=(replace(first, low=-9.0),))).rows
    assert row[-1] == "\N{MINUS SIGN}612 mg/dL (2.5 sd beyond)"


def test_bounds_are_called_bounds_and_what_was_seen_is_not():
    audit = with_end(
        samples.tabular(), value=(1.0, 612.0, 3.0), beyond=(0.0, 2.5, 3.0), exact=False
    )
    audit = replace(audit, features=audit.features[:1])
    family = replace(audit.families[0], settled_exact=False, settled=(1.0, 84.0, 90.0))
    audit = replace(audit, families=(family,))
    (row,) = features(audit).rows
    assert "612 mm at the latest (at most 2.5 sd beyond)" in row[-1]
    assert families(audit).rows[0][-1] == "at most 84"
    seen = replace(audit, verdict=replace(audit.verdict, seen_to=1e6))
    assert "at most" not in features(seen).rows[0][-1]
    assert families(seen).rows[0][-1] == "84"
