"""The page: whole, small, safe and complete, whatever the audit holds."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farfield.audit.judging import judged
from farfield.audit.policy import as_policy
from farfield.audit.record import Audit
from farfield.errors import InputError
from farfield.report.content.headline import headline
from farfield.report.content.sections import LARGEST
from farfield.report.content.words import visible
from farfield.report.html import page
from farfield.report.html.page import asset, notebook_summary, render, write_report
from report import sample_audits as samples

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Tags with their attributes, texts, and whether everything that opens is closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.open = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), (tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    def of(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]

    @property
    def text(self):
        return " ".join(self.texts)


@cache
def parsed(text):
    """A page that several tests look at."""
    return Page(text)


@pytest.fixture(scope="module")
def pages():
    return {name: render(judged(make(), None)).decode() for name, make in samples.EVERY.items()}


@pytest.mark.parametrize("name", samples.EVERY)
def test_pages_are_well_formed_and_need_nothing_else(pages, name):
    text = pages[name]
    assert len(text.encode()) <= LARGEST
    page = parsed(text)
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in page.tags:
        assert "style" not in attrs
        assert not [each for each in attrs if each.startswith("on")]
        for key in ("src", "href"):
            assert attrs.get(key, "#").startswith(("#", "data:"))
        target = attrs.get("aria-labelledby") or attrs.get("href", "").removeprefix("#")
        assert not target or target == "data:," or target in ids


@pytest.mark.parametrize("name", samples.EVERY)
def test_headings_come_in_order_and_everything_drawn_has_words(pages, name):
    page = parsed(pages[name])
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert all(attrs.get("aria-label") for attrs in page.of("svg") if attrs.get("role") == "img")
    assert all("alt" in attrs for attrs in page.of("img"))
    assert len(page.of("table")) == len(page.of("caption"))


def test_only_our_own_style_and_scripts_may_run(pages):
    text = pages["hostile"]
    policy = parsed(text).of("meta")[1]["content"]
    styles = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert (len(styles), len(scripts)) == (1, 2)
    for body in styles + scripts:
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none';")


def test_hostile_names_stay_text(pages):
    page = parsed(pages["hostile"])
    assert [tag for tag, _ in page.tags].count("script") == 3
    assert not page.of("img")
    for name in samples.HOSTILE[:4]:
        assert name in page.text
    assert len(samples.HOSTILE[6]) > 1000
    assert samples.HOSTILE[6] not in page.text
    told = re.search(r'id="payload">(.*?)</script>', pages["hostile"], re.DOTALL)[1]
    assert not set("<>&\u2028\u2029") & set(told)
    assert json.loads(told)["surfaces"][0]["x"] == samples.HOSTILE[0]


@cache
def small():
    """An audit of little but features, and the tags of its page."""
    audit = replace(samples.bare(), features=samples.mixed().features[:2])
    return audit, [tag for tag, _ in Page(render(audit).decode()).tags]


@settings(max_examples=25)
@given(name=st.text(max_size=60))
def test_any_name_is_shown_and_changes_nothing_else(name):
    base, tags = small()
    first = replace(base.features[0], name=name)
    shown = Page(render(replace(base, features=(first, *base.features[1:]))).decode())
    assert [tag for tag, _ in shown.tags] == tags
    assert visible(name) in shown.texts


@pytest.mark.parametrize("name", samples.EVERY)
def test_rendering_again_from_json_gives_the_same_page(pages, tmp_path, name):
    audit, page = judged(samples.EVERY[name](), None), pages[name]
    if name == "hostile":
        # A share that is not a number cannot be read back; no audit has one.
        audit = replace(audit, families=audit.families[:3], guard=None)
        page = render(audit).decode()
    audit.to_json(tmp_path / "audit.json")
    assert render(Audit.from_json(tmp_path / "audit.json")).decode() == page


def test_ten_thousand_features_and_heavy_pictures_fit():
    base = samples.tabular()
    long = "<&>" * 200
    features = tuple(
        replace(base.features[index % 30], name=f"{index} {long}") for index in range(10_000)
    )
    wide = replace(base, features=features, surfaces=base.surfaces * 40, rays=base.rays * 400)
    page = render(wide).decode()
    assert len(page.encode()) <= LARGEST
    assert "of 10,000 features" in page
    image = samples.images()
    large = "data:image/png;base64," + "A" * 400_000
    heavy = replace(image.pictures[0], images=(large, large))
    page = render(replace(image, pictures=(heavy,) * 40)).decode()
    assert len(page.encode()) <= LARGEST
    assert "of 40 pictures are shown" in page


def test_sections_without_findings_say_what_would_fill_them(pages):
    page = parsed(pages["mixed"])
    ids = {attrs.get("id") for attrs in page.of("section")}
    assert ids >= {"verdict", "directions", "features", "rays", "surfaces", "facts", "missing"}
    assert not ids & {"health", "detection", "votes", "pictures", "spread"}
    for option in ("--label", "--ood NAME=FILE"):
        assert option in page.text
    links = [attrs["href"][1:] for attrs in page.of("a") if "href" in attrs]
    assert {each for each in links if not each.startswith("word-")} - {"main"} == ids - {"missing"}


@pytest.mark.parametrize("name", samples.EVERY)
def test_words_link_to_their_meanings(pages, name):
    page = parsed(pages[name])
    links = {attrs["href"][1:] for attrs in page.of("a") if attrs.get("class") == "term"}
    assert links or name == "bare"
    assert links <= {attrs.get("id") for attrs in page.of("div")}


def test_findings_come_first_then_what_to_do_then_evidence():
    audit = judged(samples.tabular(), None)
    page = render(audit).decode()
    places = [page.index(f'id="{name}"') for name in ("findings", "remedies", "verdict", "facts")]
    assert places == sorted(places)
    assert [page.index(f">{each.code}<") for each in audit.findings[:3]] == sorted(
        page.index(f">{each.code}<") for each in audit.findings[:3]
    )
    assert page.count('<article class="finding') == len(audit.findings)
    nothing = render(replace(audit, findings=())).decode()
    assert "Nothing that farfield looks for is wrong" in nothing


def test_the_own_data_is_compared_with_foreign_sets():
    audit = samples.tabular()
    page = render(replace(audit, health=replace(audit.health, certain=0.4321))).decode()
    own = page[page.index("own data</th>") :]
    assert "43.2%" in own[:400]


def test_the_outcome_is_that_of_the_whole_audit():
    audit = replace(samples.tabular(), verdict=replace(samples.mixed().verdict, passed=None,
                                                       max_blind=None))  # fmt: skip
    assert headline(judged(audit, None)).badge == "No limit was set"
    strict = headline(judged(audit, as_policy({"fail_on": "error"})))
    assert strict.outcome == "failed"
    assert strict.badge.startswith("Failed: FF101")
    kept = headline(judged(audit, as_policy({"budgets": {"accuracy": 0.1}})))
    assert (kept.outcome, kept.badge) == ("passed", "Passed: nothing breaks its budget")


def test_warnings_stand_above_the_verdict(pages):
    page = render(replace(samples.mixed(), warnings=("Columns do not fit.",))).decode()
    assert page.index("Columns do not fit.") < page.index('id="verdict"')
    assert {"#warnings"} <= {attrs.get("href") for attrs in Page(page).of("a")}
    assert "#warnings" not in pages["mixed"]
    fragment = notebook_summary(replace(samples.mixed(), warnings=("Columns do not fit.",)))
    assert fragment.index("Columns do not fit.") < fragment.index("Passed")


def test_numbers_are_told_as_they_are(pages):
    text = " ".join(parsed(pages["ensemble"]).text.split())
    assert "never" in text
    assert "39% to 43.4% at 95%" in text
    assert "Failed: 5% allowed" in text
    assert "10 members" in text
    passed = parsed(pages["mixed"]).text
    assert "Passed: 5% allowed" in passed
    assert "exact: every direction of the family was counted" in passed
    assert "at its bound 18 years" in passed
    assert "6 features as 11 inputs" in passed
    assert "5 values" in passed
    assert "No limit was set" in parsed(pages["images"]).text


def test_units_that_settle_are_not_taken_for_answers_that_do(pages):
    text = parsed(pages["tabular"]).text
    assert "Nothing changes" not in text
    for words in ("Last switch at", "Class final from", "99.9% for good from"):
        assert words in text
    audit = samples.tabular()
    ray = replace(audit.rays[0], reach=21.5, first=3.0, settled=152.0, final=140.0, exact=False)
    page = render(replace(audit, rays=(ray,))).decode()
    assert "at most 152" in page
    assert "at most 140" in page


def test_every_column_of_the_features_can_be_sorted(pages):
    page = parsed(pages["tabular"])
    keys = [attrs["data-key"] for attrs in page.of("button") if "data-key" in attrs]
    rows = [attrs for attrs in page.of("tr") if "data-row" in attrs]
    assert len(rows) == 30
    assert {f"data-{key}" for key in keys[:11]} <= set(rows[0])
    assert len(keys[:11]) == len(set(keys[:11]))


def test_the_best_score_of_each_data_set_is_marked_in_words(pages):
    rows = re.findall(r"<tr class=\"best\".*?</tr>", pages["tabular"], re.DOTALL)
    assert len(rows) == 2
    assert all("★ best" in row for row in rows)
    assert pages["tabular"].count(">reference<") == 6


def test_only_pictures_inside_of_the_page_are_shown(pages):
    assert len(parsed(pages["images"]).of("img")) == 12
    assert parsed(pages["hostile"]).text.count("This picture cannot be shown") == 2


@pytest.mark.parametrize("name", samples.EVERY)
def test_notebooks_get_a_fragment_without_scripts(name):
    page = Page(notebook_summary(samples.EVERY[name]()))
    assert not page.of("script")
    assert "audit.to_html" in page.text
    assert samples.EVERY[name]()._repr_html_()


def test_pages_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = write_report(samples.bare(), tmp_path / "new" / "report.html")
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]
    before = path.read_bytes()
    with pytest.raises(InputError, match="folder"):
        write_report(samples.bare(), tmp_path / "new")
    monkeypatch.setattr("pathlib.Path.write_bytes", lambda *_: (_ for _ in ()).throw(OSError(28)))
    with pytest.raises(InputError, match="cannot write"):
        write_report(samples.tabular(), path)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]


def brightness(colour):
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((brightness(one), brightness(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_stands_out_in_light_and_dark():
    blocks = re.findall(r":root[^{]*\{(.*?)\}", asset("page.css"), re.DOTALL)
    light, *dark = [dict(re.findall(r"--([\w-]+): (#\w{6});", block)) for block in blocks]
    assert len(dark) == 2
    assert dark[0] == dark[1]
    for theme in (light, light | dark[0]):
        for paper in ("paper", "panel", "alarm-panel", "calm-panel"):
            for ink in ("ink", "muted", "accent", "alarm", "calm"):
                assert contrast(theme[ink], theme[paper]) >= 4.5, (ink, paper)
        for fill in ("alarm-fill", "calm-fill", "curve"):
            assert contrast(theme[fill], theme["paper"]) >= 3, fill


def test_templates_are_compiled_once_for_all_processes(monkeypatch):
    made = page.compile_templates()
    assert made
    page.environment.cache_clear()
    monkeypatch.setattr(page.Environment, "_generate", None)
    assert page.environment().get_template("page.html").blocks is not None
    changed = bytes(reversed(next(iter(made.values()))))
    monkeypatch.setattr(page.COMPILED, "known", dict.fromkeys(made, changed))
    page.environment.cache_clear()
    with pytest.raises(TypeError):  # what does not fit is compiled again
        page.environment().get_template("page.html")
    page.environment.cache_clear()
