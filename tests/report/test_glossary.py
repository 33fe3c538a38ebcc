"""The words of reports: explained on the page, and as the glossary has them."""

from pathlib import Path

import pytest

from farfield.report.content import glossary
from report import sample_audits as samples

PAGE = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text("utf-8")
TEXTS = {name: text for name, text in vars(glossary).items() if isinstance(text, str)}
MEANINGS = {name: text for name, text in TEXTS.items() if name.isupper()}


@pytest.mark.parametrize("name", MEANINGS)
def test_the_glossary_says_the_same(name):
    assert MEANINGS[name].replace("in this report", "that farfield computes") in PAGE


def test_the_glossary_has_the_words_that_need_it():
    needed = "blind, far field, germ, reach, instance, data radius, whitened, covered set, view, "
    for word in (needed + "envelope, sampled, exact").split(", "):
        assert f"**{word}**" in PAGE, word


@pytest.mark.parametrize("name", [name for name in samples.EVERY if name != "wide"])
def test_a_report_explains_its_words(name, tmp_path):
    audit = samples.EVERY[name]()
    page = audit.to_html(tmp_path / "report.html").read_text("utf-8")
    assert 'href="#words"' in page
    assert 'id="words"' in page
    used = dict(glossary.words_used(audit))
    assert "Blind" in used
    assert ("Covered set" in used) == (audit.guard is not None)
    assert ("Instance or member" in used) == (audit.model.instances > 1)
    assert all(f"<dt>{word}</dt>" in page for word in used)
