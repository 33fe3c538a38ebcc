"""Differences as text and as a page."""

from dataclasses import replace

import pytest

from farfield.audit.difference import difference
from farfield.audit.judging import judged
from farfield.report.difference import difference_page, format_difference
from report import sample_audits as samples


@pytest.mark.parametrize("name", samples.EVERY)
def test_every_pair_can_be_told_harmlessly(name):
    found = difference(judged(samples.tabular(), None), judged(samples.EVERY[name](), None))
    text, page = format_difference(found), difference_page(found)
    assert not [each for each in text if ord(each) < 32 and each != "\n"]
    for letter in ("<script>alert", "<img", "<svg onload"):
        assert letter not in page
    assert "Content-Security-Policy" in page


def test_words_say_what_got_worse_and_what_is_new():
    old = judged(samples.tabular(), None)
    families = (replace(old.families[0], share=0.0), *old.families[1:])
    better = judged(replace(old, families=families), None)
    text = format_difference(difference(better, old))
    assert "1 worse" in text
    assert "- Blind: features" in text
    assert "0% -> 100%  worse" in text
    assert "1 better" in format_difference(difference(old, better))
    assert "Nothing got better or worse." in format_difference(difference(old, old))
