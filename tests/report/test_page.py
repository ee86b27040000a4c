"""The HTML page: its markup, and in a real browser what a reader sees and does."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import html5lib
import pytest

from diffuzz.report.html import html
from tests.report import sample
from tests.report.pictured import pictured

REPORTS = {"usual": sample.usual, "empty": sample.report, "hostile": sample.hostile}


@pytest.mark.parametrize("name", REPORTS)
def test_the_markup_has_no_parse_error_and_nothing_put_into_it(name: str):
    page = html(REPORTS[name]())
    document = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    scripts = [element.get("type") for element in document.iter("script")]
    assert scripts == ["application/json", None]
    assert [element.tag for element in document.iter("img")] == []
    data = next(element for element in document.iter("script")).text
    assert json.loads(data)["schema"] == 1


def test_the_page_is_one_file_that_asks_for_nothing():
    page = html(sample.usual())
    assert not re.search(r"""(?:src|href)=["'](?!#|data:,)""", page)
    assert "@import" not in page
    assert "url(" not in page


def test_the_security_policy_knows_the_very_style_and_script():
    page = html(sample.hostile())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        text = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert text is not None
        digest = base64.b64encode(hashlib.sha256(text[1].encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy[1]


class Page:
    """A report opened in the browser; ``errors`` is what the browser complained of."""

    def __init__(self, driver: Any, folder: Path, report: dict[str, Any]) -> None:
        self.driver = driver
        self.file = folder / "report.html"
        self.file.write_text(html(report), encoding="utf-8")

    def open(self, width: int = 1200, dark: bool = False, anchor: str = "") -> Page:
        self.driver.get("about:blank")
        for log in ("browser", "performance"):
            self.driver.get_log(log)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get(f"{self.file.as_uri()}{anchor}")
        return self

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        events = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        urls = [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith(("data:", "about:"))]

    def shown(self) -> list[str]:
        """Ids of the findings that can be seen, in order."""
        return self.run(
            "return [...document.querySelectorAll('.finding')]"
            ".filter(card => card.offsetParent !== null).map(card => card.id)"
        )

    def choose(self, name: str, value: str) -> None:
        self.run(
            "const field = document.getElementById('filter-' + arguments[0]);"
            "field.value = arguments[1]; field.dispatchEvent(new Event('input', {bubbles: true}));",
            name,
            value,
        )

    def open_all(self) -> None:
        self.run("document.querySelectorAll('details').forEach(part => { part.open = true; })")
        # The parts of a finding are made in the event that follows.
        self.driver.execute_async_script("setTimeout(arguments[arguments.length - 1], 50)")

    def too_wide(self) -> list[str]:
        """What sticks out to the right, other than inside of something that scrolls."""
        return self.run(
            """const width = document.documentElement.clientWidth;
            const scrolls = (e) => e && (getComputedStyle(e).overflowX !== 'visible' ||
                scrolls(e.parentElement));
            return [...document.body.querySelectorAll('*')].filter(e =>
                e.getBoundingClientRect().right > width + 1 && !scrolls(e.parentElement) &&
                e.className !== 'skip').map(e => e.outerHTML.slice(0, 120));"""
        )


@pytest.fixture(scope="module")
def with_pictures() -> dict[str, Any]:
    return pictured()


@pytest.fixture
def page(chromium: Any, run_folder: Path, with_pictures: dict[str, Any]) -> Page:
    return Page(chromium, run_folder, with_pictures)


IDS = {
    "regression": ["gather-wrong-result-00000002", "gather-crash-00000003"],
    "both": ["gather-wrong-result-00000004"],
    "fixed": ["gather-precision-00000001"],
}
ALL = [*IDS["regression"], *IDS["both"], *IDS["fixed"]]


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [320, 1200])
def test_it_loads_fits_and_asks_for_nothing(page: Page, width: int, dark: bool):
    page.open(width, dark)
    page.open_all()
    assert page.complaints() == []
    assert page.requests() == [page.file.as_uri()]
    assert page.too_wide() == []
    assert page.run("return document.documentElement.scrollWidth") <= width


@pytest.mark.browser
@pytest.mark.parametrize("name", REPORTS)
def test_any_report_loads_and_no_text_of_it_runs(chromium: Any, run_folder: Path, name: str):
    page = Page(chromium, run_folder, REPORTS[name]()).open(400)
    page.open_all()
    assert page.complaints() == []
    assert page.requests() == [page.file.as_uri()]
    assert page.run("return window.pwned") is None
    assert page.run("return document.querySelectorAll('img, iframe, main script').length") == 0
    assert page.too_wide() == []


@pytest.mark.browser
def test_the_overview_says_how_it_went(page: Page):
    page.open()
    assert page.run("return document.title") == "diffuzz: 2 regressions, 1 in both, 1 fixed"
    text = page.run("return document.getElementById('targets').innerText")
    assert "aaaaaaaa → bbbbbbbb" in text
    tiles = page.run("return document.getElementById('tiles').innerText").split()
    assert tiles[:3] == ["80", "cases", "run"]


@pytest.mark.browser
def test_filters_work_alone_together_and_back(page: Page):
    page.open()
    assert page.shown() == ALL
    page.choose("direction", "regression")
    assert page.shown() == IDS["regression"]
    assert page.run("return document.getElementById('count').textContent") == "2 of 4 findings"
    page.choose("kind", "crash")
    assert page.shown() == ["gather-crash-00000003"]
    page.choose("arch", "sm90")
    assert page.shown() == []
    page.run("document.querySelector('#filters button[type=reset]').click()")
    page.driver.execute_async_script("setTimeout(arguments[0], 50)")
    assert page.shown() == ALL
    page.choose("target", "decode")
    assert page.shown() == IDS["both"]
    page.choose("target", "")
    page.choose("text", "NUMBER 1")
    assert page.shown() == IDS["fixed"]


@pytest.mark.browser
def test_a_filter_is_kept_in_the_address(page: Page):
    page.open(anchor="#direction=fixed")
    assert page.shown() == IDS["fixed"]
    page.choose("direction", "both")
    assert page.run("return location.hash") == "#direction=both"
    assert page.complaints() == []


@pytest.mark.browser
def test_a_wrong_head_is_a_column_of_the_map(page: Page):
    page.open()
    page.open_all()
    drawn = page.run(
        """const card = document.getElementById(arguments[0]);
        const map = card.querySelector('.map svg');
        return [map.viewBox.baseVal.width,
            [...map.querySelectorAll('path')].map(
                (path) => [path.getAttribute('class'), path.getBBox().x])];""",
        IDS["regression"][0],
    )
    size = (drawn[0] - 2) / 8
    assert ["h9", 3 * size] in drawn[1] or ["h8", 3 * size] in drawn[1]
    assert [level for level, x in drawn[1] if x == 0] == ["h0"]


@pytest.mark.browser
def test_pictures_coverage_gaps_and_timeline_are_there(page: Page):
    page.open()
    page.open_all()
    count = "return document.querySelectorAll(arguments[0]).length"
    assert page.run(count, ".histogram svg rect") > 20
    assert page.run(count, ".map svg") == 6
    assert page.run(count, "#timeline .dot") == 70
    assert page.run(count, "#covered .undrawn") > 2
    gaps = page.run("return document.getElementById('gaps').innerText")
    assert "gather on gfx950 · not run: this architecture was not asked for" in gaps
    assert "decode on sm100 · not tested: new parameter rope_scale" in gaps


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True])
def test_text_has_contrast(page: Page, dark: bool):
    """WCAG 2.1 AA: 4.5 to 1 for text, by the colours the browser computed."""
    page.open(dark=dark)
    page.open_all()
    low = page.run(
        """const parse = (text) => text.match(/[\\d.]+/g).map(Number);
        const light = ([r, g, b]) => { const [x, y, z] = [r, g, b].map(c => { c /= 255;
            return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; });
            return .2126 * x + .7152 * y + .0722 * z; };
        const back = (e) => { for (; e; e = e.parentElement) {
            const c = parse(getComputedStyle(e).backgroundColor);
            if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
        const seen = (e) => e.offsetParent !== null || e.ownerSVGElement;
        const holds = (e) => e.tagName !== 'title' &&
            [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
        const ratio = (e) => { const style = getComputedStyle(e);
            const one = light(parse(e.ownerSVGElement ? style.fill : style.color));
            const other = light(back(e));
            return (Math.max(one, other) + .05) / (Math.min(one, other) + .05); };
        return [...document.body.querySelectorAll('*')].filter(e => seen(e) && holds(e))
            .map(e => [ratio(e), e.outerHTML.slice(0, 100)])
            .filter(([ratio]) => ratio < 4.5);"""
    )
    assert low == []


@pytest.mark.browser
def test_known_and_following_findings_are_marked(chromium: Any, run_folder: Path):
    known = sample.finding(1, known={"red": False, "text": "known until 2030-01-01"})
    root, after = sample.finding(2, "both"), sample.finding(3, "both")
    after["follows"] = root["id"]
    report = sample.report(sample.target(findings=[known, after, root]))
    page = Page(chromium, run_folder, report).open()
    page.open_all()
    assert page.shown() == [known["id"], root["id"], after["id"]]
    assert page.run("return document.querySelector('.top').classList.contains('both')")
    text = page.run("return document.getElementById('list').innerText")
    assert "known until 2030-01-01" in text
    assert "Follows from another" in text
    page.run("document.querySelector('.facts a').click()")
    assert page.run("return location.hash") == f"#{root['id']}"
    assert page.complaints() == []


@pytest.mark.browser
def test_three_hundred_findings_stay_usable(chromium: Any, run_folder: Path):
    findings = [sample.finding(k, ["regression", "fixed"][k % 2]) for k in range(300)]
    page = Page(chromium, run_folder, sample.report(sample.target(findings=findings))).open()
    page.choose("direction", "fixed")
    assert len(page.shown()) == 150
    assert page.run("return document.querySelectorAll('.finding .body').length") <= 3
    assert page.complaints() == []
