"""Reports in a real browser, without a network."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sekai.evaluation.report import write_report
from sekai.experiment.index_page import write_index
from tests.evaluation.report_samples import (
    HOSTILE,
    evaluation_of_orders,
    flagged_evaluation,
    rich_evaluation,
)
from tests.experiment.test_index_page import HEADLINE, SUMMARY, add_run

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are needed"),
    pytest.mark.timeout(120),
]
WIDE, PHONE = (1440, 900), (390, 844)


class Browser:
    """Chromium, with what the tests ask of it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path, size: tuple[int, int] = WIDE, scheme: str = "light") -> None:
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", metrics | {"mobile": size == PHONE}
        )
        self.driver.get("about:blank")
        self.complaints()
        self.requests()
        self.driver.get(path.as_uri())
        # The driver may come back before the scripts have run.
        ready = "return document.readyState === 'complete' && location.protocol === 'file:'"
        eventually(lambda: bool(self.run(ready)))

    def run(self, script: str, *values: object) -> Any:
        return self.driver.execute_script(script, *values)

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        events = [
            json.loads(row["message"])["message"] for row in self.driver.get_log("performance")
        ]
        sent = [one for one in events if one["method"] == "Network.requestWillBeSent"]
        return [one["params"]["request"]["url"] for one in sent]

    def tabs(self) -> list[str]:
        found: list[str] = self.run(
            "return [...document.querySelectorAll('[role=tab]')].map(one => one.id)"
        )
        return found

    def show(self, tab: str) -> None:
        self.run("document.getElementById(arguments[0]).click()", tab)
        eventually(lambda: self.shown() == [tab.removeprefix("tab-")])
        eventually(lambda: all(count > 0 for count in self.lines()))

    def shown(self) -> list[str]:
        found: list[str] = self.run(
            "return [...document.querySelectorAll('.panel')].filter(one => one.offsetHeight)"
            ".map(one => one.id)"
        )
        return found

    def lines(self) -> list[int]:
        """Return the number of traces of each visible chart."""
        found: list[int] = self.run(
            "return [...document.querySelectorAll('[data-chart]')].filter(one => one.offsetWidth)"
            ".map(one => one.querySelectorAll('.main-svg .trace').length)"
        )
        return found

    def press(self, key: str) -> None:
        self.driver.switch_to.active_element.send_keys(key)


def eventually(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < end, "it never came to be so"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--host-resolver-rules=MAP * ~NOTFOUND",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reports of all kinds, written once."""
    folder = tmp_path_factory.mktemp("reports")
    rich = rich_evaluation(seeds=16, days=260)
    write_report(rich, folder / "rich.html")
    write_report(flagged_evaluation(), folder / "flagged.html")
    write_report(evaluation_of_orders(), folder / "orders.html")
    write_report([rich, rich_evaluation("other", seeds=4)], folder / "several.html")
    return folder


@pytest.mark.parametrize("name", ["rich", "flagged", "orders", "several"])
@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (PHONE, "dark")])
def test_every_tab_is_drawn_quietly_alone_and_inside_the_screen(
    browser: Browser, folder: Path, name: str, size: tuple[int, int], scheme: str
) -> None:
    browser.open(folder / f"{name}.html", size, scheme)

    drawn = 0
    for tab in browser.tabs():
        browser.show(tab)
        assert browser.run("return document.documentElement.scrollWidth") <= size[0], tab
        drawn += len(browser.lines())

    assert drawn == browser.run("return document.querySelectorAll('[data-chart]').length")
    assert drawn > 0
    assert browser.complaints() == []
    assert browser.requests() == [(folder / f"{name}.html").as_uri()]
    assert browser.run("return window.hacked") is None


LAPTOP = (1280, 900)
EDGES = """
const cell = arguments[0] === "last"
  ? document.querySelector("tbody tr td:last-child")
  : document.querySelector("tbody tr td:nth-child(2)");
return cell.getBoundingClientRect().right;
"""


def test_the_index_of_runs_shows_all_on_a_laptop_and_headlines_on_a_phone(
    browser: Browser, tmp_path: Path
) -> None:
    summary = SUMMARY | {"metrics": {"total_return": 0.25, "max_drawdown": -0.1, "turnover": 0.4}}
    add_run(tmp_path, "stocks-daily", headline=HEADLINE, summary=summary)
    page = write_index(tmp_path)

    browser.open(page, LAPTOP)
    assert browser.run(EDGES, "last") <= browser.run(
        "return document.querySelector('.scroll').getBoundingClientRect().right"
    )
    # An env id or a date that breaks at its hyphen has more than one line box.
    script = "return [...document.querySelectorAll('td .word')].map(o => o.getClientRects().length)"
    lines = browser.run(script)
    assert len(lines) == 5
    assert set(lines) == {1}
    browser.open(page, PHONE)
    assert browser.run(EDGES, "headline") <= PHONE[0]


def test_the_verdicts_of_compared_runs_fit_a_phone(browser: Browser, folder: Path) -> None:
    browser.open(folder / "several.html", PHONE)

    script = """
    const cells = [...document.querySelectorAll("#overview td")];
    const verdicts = cells.filter(one => one.textContent.includes("ignificantly"));
    return verdicts.map(one => one.getBoundingClientRect().right);
    """
    edges = browser.run(script)
    assert edges
    assert max(edges) <= PHONE[0]


def test_links_have_the_colour_of_the_theme(browser: Browser, tmp_path: Path) -> None:
    add_run(tmp_path, "demo", headline=HEADLINE, summary=SUMMARY)
    script = "return getComputedStyle(document.querySelector('tbody a')).color"
    page = write_index(tmp_path)

    colours = []
    for scheme in ("light", "dark"):
        browser.open(page, LAPTOP, scheme)
        colours.append(browser.run(script))
    assert colours == ["rgb(0, 114, 178)", "rgb(86, 180, 233)"]


TITLES = """
const boxes = (chart, names) => [...chart.querySelectorAll(names)]
  .map(one => [one.textContent, one.getBoundingClientRect()]).filter(one => one[1].width);
const found = [];
for (const chart of document.querySelectorAll("[data-chart]")) {
  if (!chart.offsetWidth) continue;
  const room = chart.getBoundingClientRect();
  for (const [title, one] of boxes(chart, ".annotation")) {
    if (one.left < room.left || one.right > room.right + 1) found.push(title + " is cut");
    for (const [text, other] of boxes(chart, ".legendtext, .legendlines"))
      if (one.left < other.right && other.left < one.right
          && one.top < other.bottom && other.top < one.bottom)
        found.push(title + " is under " + text);
  }
}
return found;
"""


@pytest.mark.parametrize("name", ["rich", "orders"])
@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_titles_of_charts_are_whole_and_touch_no_legend(
    browser: Browser, folder: Path, name: str, size: tuple[int, int]
) -> None:
    browser.open(folder / f"{name}.html", size)

    for tab in browser.tabs():
        browser.show(tab)
        assert browser.run(TITLES) == [], tab


def test_tabs_follow_the_keyboard_and_the_address(browser: Browser, folder: Path) -> None:
    browser.open(folder / "rich.html")
    browser.run("document.getElementById('tab-overview').focus()")

    browser.press("\ue014")  # right
    assert browser.shown() == ["performance"]
    assert browser.driver.switch_to.active_element.get_attribute("id") == "tab-performance"
    browser.press("\ue010")  # end
    assert browser.shown() == ["provenance"]
    browser.press("\ue014")
    assert browser.shown() == ["overview"]
    browser.press("\ue012")  # left
    assert browser.shown() == ["provenance"]
    browser.press("\ue011")  # home
    assert browser.shown() == ["overview"]
    assert browser.run("return location.hash") == "#overview"
    selected = "return document.querySelectorAll('[role=tab][aria-selected=true]').length"
    assert browser.run(selected) == 1

    browser.run("location.hash = '#costs'")
    eventually(lambda: browser.shown() == ["costs"])


def test_the_theme_is_the_systems_until_it_is_chosen_and_charts_follow(
    browser: Browser, folder: Path
) -> None:
    def colours() -> list[str]:
        found: list[str] = browser.run(
            "return [document.body, ...document.querySelectorAll('#performance .ytick text')]"
            ".slice(0, 2).map(one => getComputedStyle(one)[one.matches('text') ? 'fill' : 'color'])"
        )
        return found

    browser.open(folder / "rich.html", scheme="light")
    browser.show("tab-performance")
    eventually(lambda: len(colours()) == 2)
    light = colours()
    browser.run("document.getElementById('theme').click()")
    eventually(lambda: not set(light) & set(colours()))
    dark = colours()
    assert browser.run("return document.getElementById('theme').ariaPressed") == "true"

    browser.open(folder / "rich.html", scheme="dark")
    browser.show("tab-performance")
    eventually(lambda: colours() == dark)
    browser.run("document.getElementById('theme').click()")
    eventually(lambda: colours() == light)


def choose(browser: Browser, select: str, place: int) -> None:
    browser.run(
        "const one = document.querySelector(arguments[0]); one.selectedIndex = arguments[1];"
        "one.dispatchEvent(new Event('change'))",
        select,
        place,
    )


def test_a_single_seed_can_be_chosen(browser: Browser, folder: Path) -> None:
    browser.open(folder / "rich.html")
    browser.show("tab-performance")
    agent = (
        "return [...document.querySelector('#performance [data-chart]').state.traces.at(-1).y]"
        ".slice(-5)"
    )
    together = browser.run(agent)

    choose(browser, "#performance select[data-views]", 3)

    eventually(lambda: browser.run(agent) != together)
    eventually(lambda: browser.lines()[0] == 12)  # six policies, in two panels


def test_a_table_of_months_can_be_chosen(browser: Browser, folder: Path) -> None:
    browser.open(folder / "rich.html")
    browser.show("tab-performance")

    choose(browser, "select[data-tables]", 2)

    seen = "return [...document.querySelectorAll('[data-table]')].map(one => one.offsetHeight > 0)"
    assert [place for place, is_seen in enumerate(browser.run(seen)) if is_seen] == [2]


def test_tables_sort_by_their_numbers_with_the_undefined_last(
    browser: Browser, folder: Path
) -> None:
    browser.open(folder / "several.html")
    column = (
        "const table = document.querySelector('#overview table');"
        "const at = [...table.tHead.rows[0].cells].findIndex(one => one.innerText == arguments[0]);"
        "if (arguments[1]) table.tHead.rows[0].cells[at].querySelector('button').click();"
        "return [...table.tBodies[0].rows].map(row => Number(row.cells[at].dataset.value))"
    )
    before = browser.run(column, "Sharpe ratio", False)

    falling = browser.run(column, "Sharpe ratio", True)
    rising = browser.run(column, "Sharpe ratio", True)

    assert falling == sorted(before, reverse=True)
    assert rising == sorted(before)


POINT = """
const svg = document.querySelector("#performance .main-svg"), box = svg.getBoundingClientRect();
const at = (share) => box.left + share * box.width;
for (const [kind, share] of arguments[0]) {
  const place = {clientX: at(share), clientY: box.top + 60, bubbles: true};
  svg.dispatchEvent(new PointerEvent(kind, place));
}
"""


def test_values_under_the_pointer_are_shown(browser: Browser, folder: Path) -> None:
    browser.open(folder / "rich.html")
    browser.show("tab-performance")

    browser.run(POINT, [["pointermove", 0.5]])

    rows = (
        "return [...document.querySelectorAll('#performance .tip-row')].map(one => one.innerText)"
    )
    found = browser.run(rows)
    assert len(found) == 12  # six policies, in two panels
    assert all("%" in row for row in found)
    title = browser.run("return document.querySelector('#performance .tip-title').innerText")
    assert title.startswith("2021-")


def test_a_drag_zooms_and_a_double_click_returns(browser: Browser, folder: Path) -> None:
    browser.open(folder / "rich.html")
    browser.show("tab-performance")
    ticks = "return [...document.querySelectorAll('#performance .main-svg')][0].textContent"
    whole = browser.run(ticks)

    browser.run(POINT, [["pointerdown", 0.4], ["pointermove", 0.5], ["pointerup", 0.5]])
    zoomed = browser.run(ticks)
    browser.run(POINT, [["dblclick", 0.5]])

    assert zoomed != whole
    assert browser.run(ticks) == whole


def test_a_policy_can_be_hidden(browser: Browser, folder: Path) -> None:
    browser.open(folder / "rich.html")
    browser.show("tab-performance")
    before = browser.lines()[0]

    browser.run("document.querySelector('#performance .legend-item').click()")

    assert browser.lines()[0] == before - 6  # a line and two edges of a band, in two panels
    pressed = "return document.querySelector('#performance .legend-item').ariaPressed"
    assert browser.run(pressed) == "false"


FIRST_SCREEN = """
const box = (name) => document.querySelector("#overview " + name).getBoundingClientRect();
return [box(".tiles").bottom, box(".main-svg").top];
"""


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_the_first_screen_holds_the_verdict_the_numbers_and_the_picture(
    browser: Browser, folder: Path, size: tuple[int, int]
) -> None:
    browser.open(folder / "rich.html", size)
    tiles, picture = browser.run(FIRST_SCREEN)

    assert tiles < picture < size[1]
    assert (
        browser.run("return document.querySelectorAll('#overview .tiles.four .tile').length") == 4
    )


def test_names_are_written_on_charts_as_they_are(browser: Browser, folder: Path) -> None:
    browser.open(folder / "flagged.html")
    browser.show("tab-performance")

    legend = "[...document.querySelectorAll('#performance .legendtext')]"
    names = f"return {legend}.map(one => one.textContent)"
    eventually(lambda: HOSTILE in browser.run(names))
    assert browser.run("return document.querySelectorAll('svg a, svg script').length") == 0


def test_what_is_put_into_the_page_later_cannot_run(browser: Browser, folder: Path) -> None:
    browser.open(folder / "rich.html")

    browser.run(
        "const one = document.createElement('script'); one.textContent = 'window.hacked = 1';"
        "document.body.append(one);"
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked = 1\">')"
    )

    assert browser.run("return window.hacked") is None
    refused = [one for one in browser.complaints() if "Content Security Policy" in one]
    assert len(refused) == 3  # the script, the picture, and what it should do without one


def test_all_sections_are_on_paper(browser: Browser, folder: Path) -> None:
    browser.open(folder / "rich.html", scheme="dark")

    browser.run("window.dispatchEvent(new Event('beforeprint'))")
    printed = browser.shown()
    eventually(lambda: all(count > 0 for count in browser.lines()))
    theme = browser.run("return document.documentElement.dataset.theme")
    browser.run("window.dispatchEvent(new Event('afterprint'))")

    assert printed == [tab.removeprefix("tab-") for tab in browser.tabs()]
    assert theme == "light"
    assert browser.shown() == ["overview"]
    assert browser.run("return document.documentElement.dataset.theme") == "dark"
