"""The open report, by what a reader sees and does."""

from __future__ import annotations

import re

from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement


class Page:
    """The report at `path` in the browser, on a wide light screen until told otherwise."""

    def __init__(self, browser, path) -> None:
        self.browser = browser
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.emulate()
        browser.get(path.as_uri())

    def emulate(self, *, media: str = "", scheme: str | None = None) -> None:
        features = [] if scheme is None else [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})

    def find(self, css: str, within: WebElement | None = None) -> WebElement:
        return (within or self.browser).find_element(By.CSS_SELECTOR, css)

    def all(self, css: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, css)

    def text(self, css: str) -> str:
        return self.find(css).text

    def number(self, metric: str, column: str = "chosen", of: str = "value") -> float:
        shown = self.find(f"#chosen tr[data-metric={metric}] td[data-column={column}]").get_attribute(f"data-{of}")
        return float(shown) if shown else float("nan")

    def weight(self) -> float:
        return float(self.find("#mixture").get_attribute("data-weight"))

    def points(self) -> list[tuple[str, WebElement]]:
        """The drawn points, each with its name."""
        return [(point.get_attribute("aria-label").split(";")[0], point) for point in self.all("#plot .point")]

    def places(self) -> dict[str, list[float]]:
        """Where the points are drawn, by name: pixels to the right and down."""
        return {
            name: [float(v) for v in re.findall(r"-?[\d.]+", point.get_attribute("transform"))]
            for name, point in self.points()
        }

    def choose(self, name: str, value: str) -> None:
        self.find(f"input[name={name}][value={value}]").click()

    def option(self, box: str, text: str) -> None:
        next(o for o in self.all(f"#{box} option") if o.text == text).click()

    def type(self, css: str, text: str) -> None:
        field = self.find(css)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(Keys.DELETE)
        field.send_keys(text)

    def slide(self, t: float) -> None:
        self.script(
            "const s = document.getElementById('slider'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('input', {bubbles: true}))",
            t,
        )

    def press(self, *names: str, at: str | None = None) -> None:
        """Keys by selenium's names, to the field `at` or to what has the focus."""
        keys = [getattr(Keys, name) for name in names]
        if at is None:
            self.actions().send_keys(*keys).perform()
        else:
            self.find(at).send_keys(*keys)

    def actions(self) -> ActionChains:
        return ActionChains(self.browser)

    def script(self, code: str, *arguments):
        return self.browser.execute_script(code, *arguments)
