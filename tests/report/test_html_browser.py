"""The page in a real browser: quiet, usable with pointer and keyboard, at two widths."""

import base64
import json
import os
import shutil
from pathlib import Path

import pytest

from farfield.audit.judging import judged
from farfield.report import write_report
from farfield.report.content.words import number, percent
from report import sample_audits as samples

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


def need(is_there, what):
    """Without a browser these tests are skipped, but never where everything is checked."""
    if is_there:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing; the report must be tested in a browser")
    pytest.skip(f"{what} is not installed")


@pytest.fixture(scope="module")
def browser():
    need(BROWSER and DRIVER, "chromium with chromedriver")
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        need(False, "selenium")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("reports")
    for name, make in samples.EVERY.items():
        write_report(judged(make(), None), made / f"{name}.html")
    return made


@pytest.fixture
def visit(browser, folder):
    def opened(name, width=1280, theme="light"):
        # Without motion, so that nothing moves away from under the pointer.
        wanted = {"prefers-color-scheme": theme, "prefers-reduced-motion": "reduce"}
        media = [{"name": name, "value": value} for name, value in wanted.items()]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        page = Opened(browser)
        page.resize(width)
        browser.get((folder / f"{name}.html").as_uri())
        return page

    browser.get_log("browser")
    yield opened
    assert browser.get_log("browser") == []


class Opened:
    """A page that is open."""

    def __init__(self, driver):
        self.driver = driver

    def resize(self, width):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def run(self, script, *args):
        return self.driver.execute_script(script, *args)

    def one(self, selector):
        return self.driver.find_element("css selector", selector)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def wait(self, happened):
        """Until something has happened; an error if it does not within seconds."""
        from selenium.webdriver.support.wait import WebDriverWait

        WebDriverWait(self.driver, timeout=20, poll_frequency=0.05).until(lambda _: happened())

    def values(self, key):
        """The keys of the rows that are shown, in their order."""
        script = (
            "return [...document.querySelectorAll('#feature-table tbody tr[data-row]')]"
            ".filter((row) => !row.hidden).map((row) => row.dataset[arguments[0]] ?? null)"
        )
        return self.run(script, key)

    def requests(self):
        log = [json.loads(each["message"]) for each in self.driver.get_log("performance")]
        sent = [each["message"] for each in log]
        return [
            each["params"]["request"]["url"]
            for each in sent
            if each["method"] == "Network.requestWillBeSent"
        ]


@pytest.mark.parametrize(("name", "width"), [*zip(samples.EVERY, (390, 1280) * 4, strict=True)])
def test_pages_open_quietly_and_fit_both_widths(visit, browser, name, width):
    """Half of them open on a phone, half on a desk, and all are turned into the other."""
    browser.get_log("performance")
    page = visit(name, width)
    assert page.run("return document.readyState") == "complete"
    for shown in (width, 390 + 1280 - width):
        page.resize(shown)
        wide, needed = page.run("return [innerWidth, document.documentElement.scrollWidth]")
        assert wide == shown
        assert needed <= shown
    assert browser.get_log("browser") == []
    assert [url for url in page.requests() if not url.startswith(("file:", "data:"))] == []


def test_hostile_names_are_inert(visit):
    page = visit("hostile")
    shown = [each.text for each in page.all("#feature-table th.name bdi")]
    assert samples.HOSTILE[0] in shown
    assert samples.HOSTILE[1] in shown
    assert page.one("h1").text == samples.HOSTILE[0]
    assert page.run("return document.images.length") == 0
    page.all("#feature-table button.open")[3].click()
    assert samples.HOSTILE[0] in page.one("tr.detail").text
    told = page.run(
        "try { document.body.innerHTML = '<b>'; return 'done'; } catch (e) { return e.name; }"
    )
    assert told == "TypeError"
    assert [
        each for each in page.driver.get_log("browser") if "Trusted" not in each["message"]
    ] == []


def test_tables_sort_both_ways_with_what_is_missing_last(visit):
    page = visit("ensemble")
    button = page.one("#feature-table button[data-key='down-far']")
    button.click()
    first = [float(each) for each in page.values("downFar")]
    assert first == sorted(first)
    assert button.find_element("xpath", "..").get_attribute("aria-sort") == "ascending"
    button.click()
    assert [float(each) for each in page.values("downFar")] == sorted(first, reverse=True)
    assert page.one("#live").get_attribute("textContent") == "Sorted by 99.9% from, largest first"
    page.one("#feature-table button[data-key='name']").click()
    assert page.values("name") == sorted(samples.NAMES)
    assert button.find_element("xpath", "..").get_attribute("aria-sort") == "none"
    page = visit("mixed")
    for _ in range(2):
        page.one("#feature-table button[data-key='blind']").click()
        assert page.values("blind")[3:] == [None] * 3


def test_searching_and_opening_rows(visit):
    page = visit("tabular")
    page.one("#feature-search").send_keys("CONCAVE")
    found = [name for name in samples.NAMES if "concave" in name]
    assert sorted(page.values("name")) == sorted(found)
    assert "found, 30 in all" in page.one("#feature-count").text
    button = page.one("#feature-table tbody tr:not([hidden]) button.open")
    button.send_keys("\ue007")
    assert button.get_attribute("aria-expanded") == "true"
    assert "99.9% sure for good, for half of the rows" in page.one("tr.detail").text
    page.one("#feature-table button[data-key='index']").click()
    after = page.run("return document.querySelector('tr.detail').previousSibling.dataset.name")
    assert after == button.text
    page.one("#feature-search").send_keys("no such thing")
    assert page.values("name") == []
    assert page.one("#feature-count").text == "No feature has that name"
    assert not page.one("tr.detail").is_displayed()


def test_many_features_come_in_pages(visit):
    page = visit("wide")
    assert len(page.values("name")) == 50
    first = page.values("name")
    page.one("#page-on").click()
    assert not set(first) & set(page.values("name"))
    assert page.one("#feature-count").text == "Rows 51 to 100 of 160"
    page.one("#page-all").click()
    assert len(page.values("name")) == 160
    page.one("#feature-search").send_keys("00077")
    assert page.values("name") == ["feature 00077"]


def test_rays_answer_to_pointer_and_keyboard(visit, browser):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.support.select import Select

    page = visit("ensemble")
    told = page.one("#ray-value")
    assert told.text.startswith("At infinity: confidence")
    drawing = page.one("#ray-chart svg")
    ActionChains(browser).move_to_element(drawing).perform()
    hovered = told.text
    assert hovered.startswith("At ")
    assert "standard deviations: confidence" in hovered
    page.one("#ray-place").send_keys("\ue012")
    assert told.text != hovered
    assert "∞" in drawing.text
    Select(page.one("#ray-score")).select_by_visible_text("Energy")
    page.one("#ray-place").send_keys("\ue010")
    assert told.text == "At infinity: energy \N{MINUS SIGN}∞"
    Select(page.one("#ray-which")).select_by_index(3)
    assert "energy" in told.text
    assert "random 1" in page.one("#ray-caption").text
    page.one("#ray-table summary").click()
    # A browser tells of an opened part when it comes to it, after the click.
    page.wait(lambda: len(page.all("#ray-table tbody tr")) == 92)


def test_surfaces_answer_to_pointer_and_keyboard(visit, browser):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.support.select import Select

    page = visit("tabular")
    canvas, told = page.one("#surface-canvas"), page.one("#surface-value")
    ActionChains(browser).move_to_element(canvas).perform()
    hovered = told.text
    assert hovered.startswith("mean radius ")
    canvas.send_keys("\ue013\ue013\ue013")
    assert told.text != hovered
    pictures = {page.run("return arguments[0].toDataURL()", canvas)}
    for layer in ("edges", "boundaries", "points"):
        page.one(f"#surface-{layer}").click()
        pictures.add(page.run("return arguments[0].toDataURL()", canvas))
    Select(page.one("#surface-layer")).select_by_visible_text("Gradient magnitude")
    pictures.add(page.run("return arguments[0].toDataURL()", canvas))
    assert len(pictures) == 5
    Select(page.one("#surface-which")).select_by_index(1)
    assert page.one("#surface-x").text.startswith("worst area")
    assert "mean concavity" in canvas.get_attribute("aria-label")


def test_a_row_can_be_tried_with_one_column_moved(visit):
    from selenium.webdriver.support.select import Select

    page = visit("tabular")
    sliders, told = page.all(".what-if input"), page.all(".what-if output")
    assert len(sliders) == 6
    assert told[0].text.startswith("4 mm: malignant, 56.3%; with the guard 56.3%")
    assert told[5].text.startswith("surgery: benign")
    # To the end: infinity, where the guard says that it cannot know.
    sliders[0].send_keys("\ue010")
    assert told[0].text.startswith("∞: malignant")
    assert told[0].text.endswith("with the guard 50%")
    assert "mean radius ∞" in page.one("#what-if-now").text
    sliders[1].send_keys("\ue011")
    assert told[1].text.startswith("\N{MINUS SIGN}∞: benign")
    assert "flipped" in page.all(".what-if")[1].get_attribute("class")
    # The first is back in its place: one column at a time.
    assert told[0].text.startswith("4 mm: malignant")
    page.one("#what-if-reset").click()
    assert page.one("#what-if-now").text.startswith("The median row, as it is: malignant")
    Select(page.one("#what-if-row")).select_by_visible_text("typical of benign")
    assert len(page.all(".what-if svg path")) > 10
    # Between the values of a category there is nothing to draw.
    (*_, ward) = page.all(".what-if")
    assert len(page.run("return arguments[0].querySelectorAll('circle.spot')", ward)) == 3
    assert page.run("return arguments[0].querySelectorAll('path.sure')", ward) == []
    paper = page.run(
        "return [...document.styleSheets].some((sheet) => [...sheet.cssRules].some("
        "(rule) => rule.media?.mediaText === 'print' && rule.cssText.includes('.what-if input')))"
    )
    assert paper


def test_values_under_the_pointer_are_those_of_the_grid(visit):
    page = visit("tabular")
    canvas = page.one("#surface-canvas")
    # To the lower left corner, however far it is.
    canvas.send_keys("\ue012" * 40 + "\ue015" * 40)
    audit = samples.tabular()
    surface = audit.surfaces[0]
    low, high = surface.ranges["one_minus_max_probability"]
    byte = base64.b64decode(surface.grids["one_minus_max_probability"])[0]
    told = page.one("#surface-value").text
    assert told.startswith("mean radius 4, mean texture 10: ")
    assert float(told.rsplit(" ", 1)[1]) == pytest.approx(low + byte / 255 * (high - low), rel=0.01)


def test_scripts_write_numbers_as_the_rest_of_the_page_does(visit):
    page = visit("bare")
    values = [0.0, 1.0, 0.5, 1e-9, 0.99997, 0.1234, 0.00512, 0.9966, 12.5, 1234567.0, -3e-7, 4.2e12,
              999.6, 1000.0, 0.0123456]  # fmt: skip
    assert page.run("return arguments[0].map(percent)", values[:8]) == [
        percent(each) for each in values[:8]
    ]
    assert page.run("return arguments[0].map(number)", values) == [number(each) for each in values]


def test_light_and_dark(visit, browser):
    page = visit("bare", theme="dark")
    ground = "return getComputedStyle(document.body).backgroundColor"
    dark = page.run(ground)
    page.one("#theme").click()
    light = page.run(ground)
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(20, 20, 27)")
    page = visit("bare", theme="dark")
    assert page.run(ground) == light
    page.run("localStorage.clear()")


def test_everything_that_can_be_pressed_has_a_name(visit):
    page = visit("ensemble")
    pressed = page.all("button:not(.open), select, input, canvas:not([aria-hidden])")
    named = {each.accessible_name for each in pressed if each.is_displayed()}
    assert len(named) > 10
    assert "" not in named


def test_pages_print_with_everything_open(visit, browser):
    page = visit("mixed", theme="dark")
    page.run(
        "addEventListener('afterprint', () => {});"
        "addEventListener('beforeprint', () => { window.opened = "
        "document.querySelectorAll('details:not([open]):not(.lazy)').length; })"
    )
    made = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    assert base64.b64decode(made["data"]).startswith(b"%PDF")
    assert page.run("return window.opened") == 0
    assert page.run("return document.querySelectorAll('tr.detail').length") == 2
    assert page.run("return document.querySelectorAll('details:not([open]):not(.lazy)').length") > 0


def test_reports_lie_in_one_file(folder):
    assert {each.suffix for each in Path(folder).iterdir()} == {".html"}


def test_three_findings_are_in_full_and_the_rest_folded(visit):
    page = visit("tabular")
    articles = page.all("#findings .finding")
    shown = [each for each in articles if each.is_displayed()]
    assert len(articles) > len(shown) == 3
    assert all(each.find_element("css selector", "dl").is_displayed() for each in shown)
    page.one("#findings .rest > summary").click()
    assert all(each.is_displayed() for each in articles)


def test_a_word_leads_to_its_meaning(visit):
    page = visit("tabular")
    link = page.one(".verdict a.term")
    link.click()
    page.wait(lambda: page.run("return location.hash") == "#word-blind")
    place = page.run("return document.querySelector(':target').getBoundingClientRect().top")
    assert 0 <= place < 900


def test_tables_that_go_on_say_so(visit):
    narrow = visit("tabular", width=390)
    seen = (
        "return [...document.querySelectorAll('.scroll')].filter((box) => box.checkVisibility())"
        ".map((box) => [box.scrollWidth > box.clientWidth + 1,"
        " Boolean(box.previousElementSibling?.classList.contains('sideways'))])"
    )
    narrow.wait(lambda: all(wide == told for wide, told in narrow.run(seen)))
    assert any(wide for wide, _ in narrow.run(seen))
