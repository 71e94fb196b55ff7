"""The page in a real browser: headless Chromium, driven by Selenium."""

import shutil
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from gpnn.explain import Explanation
from gpnn.race import RaceRecord
from gpnn.report import write_comparison, write_explanation, write_report
from tests.report.conftest import HOSTILE, make_run, record_of

pytestmark = [pytest.mark.browser, pytest.mark.thorough]
webdriver = pytest.importorskip("selenium.webdriver")
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")


class Page:
    """A page that is open in the browser and has drawn its charts."""

    def __init__(self, driver, path: Path) -> None:
        self.driver = driver
        driver.get(path.as_uri())
        self.wait("document.documentElement.dataset.ready === 'true'")

    def run(self, script: str):
        return self.driver.execute_script(script)

    def wait(self, condition: str) -> None:
        end = time.monotonic() + 1200
        while not self.run(f"return {condition}"):
            assert time.monotonic() < end, f"never true: {condition}; {self.problems()}"
            time.sleep(0.05)

    def problems(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def press(self, *keys: str) -> None:
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def focused(self) -> str:
        return self.run(
            "const at = document.activeElement;"
            "return at.id || at.getAttribute('href') || at.value || at.className || at.tagName"
        )


def prefer(driver, theme: str) -> None:
    """Let the system prefer a theme."""
    features = [{"name": "prefers-color-scheme", "value": theme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@pytest.fixture(scope="module")
def driver():
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs Chromium and chromedriver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1280,1000",
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def written(record, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "report.html"
    write_report(record, path)
    return path


@pytest.fixture
def page(driver, written) -> Page:
    driver.get("about:blank")
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "light"}]}
    )
    page = Page(driver, written)
    page.run("localStorage.clear()")
    return page


def test_charts_have_marks_and_nothing_complains(page):
    marks = {
        "loss": ".scatterlayer .js-line",
        "metric": ".scatterlayer .js-line",
        "accuracy": ".barlayer .point path",
        "confusion": ".heatmaplayer image",
        "reliability": ".scatterlayer .point",
        "confidence": ".barlayer .point path",
        "drawing": ".scatterlayer .point",
        "tsne": ".scatterlayer .point",
        "sizes": ".barlayer .point path",
        "phases": ".barlayer .point path",
        "cost-phases": ".barlayer .point path",
    }
    for name, selector in marks.items():
        assert page.run(f"return document.querySelectorAll('#chart-{name} {selector}').length"), name
    assert page.run("return document.querySelectorAll('#chart-drawing .scatterlayer .point').length") == 90
    assert page.run("return document.getElementById('problem').hidden")
    assert page.run("return performance.getEntriesByType('resource').length") == 0
    assert page.problems() == []


def test_values_of_the_machine_are_not_cut_off(page):
    hidden = "[...document.querySelectorAll('#environment .panel')].map(panel => panel.scrollWidth - panel.clientWidth)"
    assert page.run(f"return {hidden}") == [0, 0]
    page.run("document.querySelector('#environment details').open = true")
    assert page.run(f"return {hidden}") == [0, 0]
    assert len(page.run("return document.querySelector('#environment td:last-child').closest('table').innerText")) > 64


def test_on_paper_nothing_is_cut_off_and_the_page_is_white(page):
    page.run("document.getElementById('theme').click()")
    right = "each.getBoundingClientRect().right"
    wide = f"[...document.querySelectorAll('.panel')].filter(each => {right} > innerWidth).length"
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 720, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        page.run("dispatchEvent(new Event('beforeprint'))")
        assert page.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.run("return document.documentElement.dataset.theme") == "light"
        headline = page.run("return getComputedStyle(document.querySelector('.cards .first dd')).color")
        assert headline == "rgb(27, 37, 48)"  # dark, since backgrounds are not printed
        page.wait(f"{wide} === 0")
        drawn = "[...document.querySelectorAll('.chart svg.main-svg')].map(each => each.getBoundingClientRect())"
        sizes = page.run(f"return {drawn}.map(each => [each.width, each.height])")
        assert sizes
        assert all(width <= 640 and height <= 840 for width, height in sizes)  # at once: nothing waits for a printer
        page.run("dispatchEvent(new Event('afterprint'))")
        assert page.run("return document.documentElement.dataset.theme") == "dark"
    finally:
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page.wait("document.querySelector('#chart-loss svg').getBoundingClientRect().width < 640")  # a column of the screen


def test_nodes_can_be_searched(page):
    rows = (
        "[...document.querySelectorAll('#nodes tbody:not([hidden]) tr:not([hidden]) th')].map(each => each.innerText)"
    )
    groups = page.run("return document.querySelectorAll('#nodes input[type=radio]').length")
    page.run(f"document.querySelectorAll('#nodes .choice span')[{groups - 1}].click()")
    assert len(page.run(f"return {rows}")) == 90
    find = page.driver.find_element("css selector", "#nodes input[type=search]")
    name = page.run(f"return {rows}")[17]
    find.send_keys(name)
    assert name in page.run(f"return {rows}")
    assert len(page.run(f"return {rows}")) < 90
    assert " of 90" in page.run("return document.querySelector('#nodes .count').textContent")


def test_hover_reads_a_node(page):
    point = page.driver.find_element("css selector", "#chart-drawing .scatterlayer .point")
    page.run("document.getElementById('chart-drawing').scrollIntoView({block: 'center', behavior: 'instant'})")
    webdriver.ActionChains(page.driver).move_to_element(point).perform()
    page.wait("document.querySelector('#chart-drawing .hovertext')")
    text = page.driver.find_element("css selector", "#chart-drawing .hovertext").text
    assert "prediction" in text
    assert "subgraph" in text


def test_the_theme_switches_and_is_remembered(page, written):
    ground = "return getComputedStyle(document.body).backgroundColor"
    font = "return getComputedStyle(document.querySelector('#chart-loss .xtick text')).fill"
    before = page.run(ground), page.run(font)
    button = page.driver.find_element("id", "theme")
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    assert page.run("return document.documentElement.dataset.theme") == "dark"
    page.wait(f"(() => {{ {font} }})() !== '{before[1]}'")
    assert page.run(ground) != before[0]
    assert button.get_attribute("aria-pressed") == "true"
    again = Page(page.driver, written)
    assert again.run("return document.documentElement.dataset.theme") == "dark"
    assert again.problems() == []


def test_it_follows_the_system_without_a_choice(page):
    prefer(page.driver, "dark")
    page.wait("document.documentElement.dataset.theme === 'dark'")


def test_the_keyboard_reaches_everything(page):
    page.press(Keys.TAB)
    assert page.focused() == "#content"
    assert page.run("return document.activeElement.className") == "skip"
    page.press(Keys.ENTER)
    assert page.focused() == "content"
    visited = []
    for _ in range(60):
        page.press(Keys.TAB)
        visited.append(page.focused())
    assert "test" in visited  # the choice of split
    assert "subgraph" in visited  # the choice of colours
    assert sum("modebar-btn" in each for each in visited) >= 4  # a chart can be zoomed
    page.run("document.querySelector('input[data-chart=drawing]').focus()")
    page.press(Keys.ARROW_RIGHT)
    page.wait("document.getElementById('chart-drawing').dataset.view === 'prediction'")
    page.run("document.getElementById('theme').focus()")
    page.press(Keys.SPACE)
    assert page.run("return document.documentElement.dataset.theme") == "dark"


def test_hostile_names_do_nothing(driver, hostile_run, tmp_path):
    write_report(record_of(hostile_run), tmp_path / "hostile.html")
    page = Page(driver, tmp_path / "hostile.html")
    assert page.run("return window.pwned") is None
    for chart in ("accuracy", "drawing"):
        page.run(f"document.querySelectorAll('input[data-chart={chart}]').forEach((view) => view.click())")
    labels = "document.querySelectorAll('#chart-accuracy .ytick text')"
    ticks = page.run(f"return [...{labels}].map((tick) => tick.textContent)")
    assert any(tick.startswith("<script>") for tick in ticks)
    assert all(any(name.startswith(tick.removesuffix("…")) for name in HOSTILE) for tick in ticks)
    assert page.run("return document.querySelectorAll('main img, main script').length") == 0
    assert page.problems() == []
    assert page.run("return window.pwned") is None


def test_a_comparison_is_drawn(driver, run, hostile_run, tmp_path):
    write_comparison([run.path, hostile_run.path], tmp_path / "both.html")
    page = Page(driver, tmp_path / "both.html")
    for name in ("curves-chart", "curves-chart-1"):  # of two datasets
        assert page.run(f"return document.querySelectorAll('#chart-{name} .scatterlayer .js-line').length") == 1
    assert page.run("return document.querySelectorAll('#chart-bars .point, #chart-bars-1 .point').length") == 2
    assert page.run("return window.pwned") is None
    assert page.problems() == []


@pytest.fixture(scope="module")
def many_classes(tmp_path_factory) -> Path:
    """The page of a run over 42 classes whose names, ids and columns are markup, with all its sections."""
    folder = tmp_path_factory.mktemp("many") / "tables<i>"
    folder.mkdir()
    quoted = ['"' + name.replace('"', '""') + '"' for name in HOSTILE]
    labels = [*quoted, *(f"a class with a long name {number}" for number in range(39))]
    ids = [f'"{row}{quoted[row % 3][1:]}' for row in range(6 * 42)]
    rows = [f"{ids[row]},{labels[row % 42]},{row % 42},{row % 5}" for row in range(len(ids))]
    (folder / "nodes.csv").write_text(f"id,label,{quoted[0]},{quoted[1]}\n" + "\n".join(rows) + "\n")
    pairs = [f"{ids[row]},{ids[(row + 42 * step) % len(ids)]}" for row in range(len(ids)) for step in (1, 2)]
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(pairs) + "\n")
    record = record_of(make_run(folder.parent / "run<b>", [f"data.name={folder}", "data.undirected=true"]))
    numbers = {"epochs": 5, "seconds": 1.5, "val_loss": 1.0, "best_epoch": 4, "stopped": "rung"}
    values = [("spread", 0.5), ("gated", 0.7), ("gated", 0.7), ("spread", 0.75), ("spread", 0.8), ("gated", 0.72)]
    tried = tuple({"rung": at // 2, "name": name, "value": value, **numbers} for at, (name, value) in enumerate(values))
    race = RaceRecord(60.0, False, "accuracy", {"spread": 0.1, "gated": 0.2}, {"spread": 40, "gated": 40}, tried)
    write_report(replace(record, race=race), folder.parent / "report.html")
    return folder.parent / "report.html"


def test_the_whole_page_at_42_classes_and_hostile_names(driver, many_classes):
    page = Page(driver, many_classes)
    ids = page.run("return [...document.querySelectorAll('section')].map(each => each.id)")
    wanted = ["verdict", "notes", "nodes", "explanations", "classes", "race", "curves", "configuration", "environment"]
    assert [each for each in ids if each in wanted] == wanted
    assert "macro F1" in page.run("return document.getElementById('verdict').innerText")

    bars = "[...document.querySelectorAll('#chart-accuracy .barlayer .point path')]"
    colors = page.run(f"return {bars}.map(each => getComputedStyle(each).fill)")
    lengths = page.run(f"return {bars}.map(each => each.getBBox().width)")
    assert len(colors) == 42
    assert len(set(colors)) == 1
    assert lengths == sorted(lengths, reverse=True)
    for ticks in ("#chart-accuracy .ytick", "#chart-confusion .ytick"):
        boxes = page.run(
            f"return [...document.querySelectorAll('{ticks} text')].map(each => each.getBoundingClientRect())"
            ".map(each => [each.top, each.height]).sort((a, b) => a[0] - b[0])"
        )
        assert len(boxes) == 42
        assert all(after[0] - before[0] >= 0.7 * before[1] for before, after in pairwise(boxes)), ticks
    assert "Most confused" in page.run("return document.getElementById('classes').innerText")

    pictures = "[...document.querySelectorAll('#explanations .picture svg')]"
    assert 1 <= page.run(f"return {pictures}.length") <= 6
    widths = page.run(f"return {pictures}.map(each => each.getBoundingClientRect().right)")
    assert max(widths) <= page.run("return innerWidth")
    assert page.run("return document.querySelector('#explanations').innerText.includes('<script>window.pwned')")

    find = page.driver.find_element("css selector", "#nodes input[type=search]")
    find.send_keys("<script>")
    shown = "document.querySelectorAll('#nodes tbody:not([hidden]) tr:not([hidden])').length"
    page.wait(f"{shown} < document.querySelectorAll('#nodes tbody:not([hidden]) tr').length")
    assert page.run("return document.querySelector('#race table').innerText.includes('gated')")
    assert page.run("return document.querySelectorAll('#chart-loss .scatterlayer .js-line').length")

    folded = "document.querySelector('#configuration details').open"
    assert page.run(f"return {folded}") is False
    page.run("location.hash = 'configuration'")
    page.wait(folded)
    assert page.run("return document.querySelectorAll('main img, main script').length") == 0
    assert page.run("return window.pwned") is None
    assert page.problems() == []


def test_the_page_of_one_explanation_needs_no_charts(driver, tmp_path):
    why = Explanation("p<b>1", HOSTILE[0], 0.9, (("p2", "p<b>1", 0.25),), (("p2", 0.25),), ((HOSTILE[1], 0.125),), 0.25)
    write_explanation(why, tmp_path / "why.html")
    page = Page(driver, tmp_path / "why.html")
    assert (tmp_path / "why.html").stat().st_size < 100_000
    assert page.run("return document.querySelectorAll('.picture svg').length") == 1
    assert "12.5 %" in page.run("return document.querySelector('main').innerText")
    assert page.run("return document.querySelectorAll('main img, main script').length") == 0
    assert page.run("return window.pwned") is None
    assert page.problems() == []
