"""The page as a person sees it: in a headless browser, at the width of a desk and of a phone, light and dark."""

import os
import shutil
from pathlib import Path

import pytest

from fedgraph_sim.results.page import write_report
from fedgraph_sim.results.run_folder import find_runs

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OFFLINE = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[dev]'")
    program = os.environ.get("FEDGRAPH_TEST_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser: install one of {', '.join(BROWSERS)}, or name it in FEDGRAPH_TEST_BROWSER")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=[*OFFLINE, "--disable-sync"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def file(real_runs, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report(find_runs([real_runs / "fedpub-0", real_runs / "fedavg-0"]), path)
    return path


@pytest.fixture
def opened(browser, file):
    """Open the page, and refuse errors on its console and every request to a network."""
    messages, requests = [], []

    def go(width, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(file.as_uri())
        return page

    yield go
    assert messages == []
    assert all(url.startswith(("file:", "data:")) for url in requests)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_the_page_fits_its_screen(opened, width, scheme, tmp_path):
    page = opened(width, scheme)
    assert page.inner_text("h1") == "2 runs"
    assert page.locator("figure > svg:visible").count() == page.locator("figure").count() == 3 + 10 + 7
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = [figure.bounding_box() for figure in page.locator("figure > svg").all()]
    assert min(box["width"] for box in boxes) > 250
    assert min(box["height"] for box in boxes) > 120
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) < 382) == (scheme == "dark")
    shot = tmp_path / "page.png"
    page.screenshot(path=shot, full_page=True)
    assert shot.stat().st_size > 50_000


def test_text_in_plots_is_in_the_colour_of_the_theme(opened):
    page = opened(1280, "dark")
    colour = page.evaluate("getComputedStyle(document.querySelector('figure svg text')).fill")
    assert sum(map(int, colour[4:-1].split(","))) > 500


def test_a_click_on_a_heading_sorts_and_another_turns_it_round(opened):
    page = opened(1280)
    table = page.locator("article").first.locator("table.sortable").first
    heading = table.locator("th", has_text="test accuracy")
    column = heading.evaluate("head => head.cellIndex")

    def values():
        return [float(row.locator("td").nth(column).inner_text()) for row in table.locator("tbody tr").all()]

    before = values()
    heading.locator("button").click()
    assert values() == sorted(before)
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.locator("button").click()
    assert values() == sorted(before, reverse=True)
