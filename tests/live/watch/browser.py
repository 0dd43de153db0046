"""Headless browser for local pages."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
WIDE, PHONE = (1440, 900), (390, 844)


class Browser:
    """Chromium, with what the tests ask of it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, address: str, size: tuple[int, int] = WIDE, scheme: str = "light") -> None:
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", metrics | {"mobile": size == PHONE}
        )
        self.driver.get("about:blank")
        self.complaints()
        self.driver.get(address)

    def run(self, script: str, *values: object) -> Any:
        return self.driver.execute_script(script, *values)

    def text(self, selector: str) -> str:
        """Text of the first visible element."""
        found = self.run(
            "const all = [...document.querySelectorAll(arguments[0])];"
            "const seen = all.find(one => one.offsetWidth);"
            "return seen ? seen.innerText : ''",
            selector,
        )
        return str(found)

    def click(self, selector: str) -> None:
        """Click with the mouse on the first that is seen."""
        found = self.run(
            "return [...document.querySelectorAll(arguments[0])].find(one => one.offsetWidth)",
            selector,
        )
        assert found is not None, f"{selector} is not seen"
        found.click()

    def press(self, keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(keys)

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def lines(self) -> list[int]:
        """Number of lines or bars on each visible chart."""
        found: list[int] = self.run(
            "return [...document.querySelectorAll('[data-chart]')].filter(one => one.offsetWidth)"
            ".map(one => one.querySelectorAll('.main-svg .trace').length)"
        )
        return found

    def keep(self, folder: Path, name: str) -> None:
        """A picture of the whole page, to look at."""
        self.driver.save_screenshot(str(folder / f"{name}.png"))


def eventually(is_so: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it never came to be so"
        time.sleep(0.05)


@contextmanager
def chromium() -> Iterator[Browser]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
