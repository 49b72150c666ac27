"""How the pages look: a browser opens them, light and dark, as wide as a desktop and as a phone, and leaves pictures of them in build/look.

``make docs`` runs this. Each test is skipped, and says so, where Chromium or the built site is missing.
"""

import threading
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from commands import works
from devtools import Browser
from reign.explore import Answers, Explorer

ROOT = Path(__file__).parents[2]
SITE, LOOK = ROOT / "build" / "docs" / "html", ROOT / "build" / "look"
WINDOWS = [(1280, 900, False), (1280, 900, True), (390, 844, False), (390, 844, True)]
PAGES = {  # what each page must show, as expressions that are true
    "index": [
        "document.querySelectorAll('#for-whom li').length === 4 && document.querySelectorAll('#for-whom li a[href]').length === 4",
        "document.querySelectorAll('#gallery img').length === 8",
        "document.querySelector('form.search input').getBoundingClientRect().width > 100",
    ],
    "generated/evidence": [
        "document.querySelectorAll('article img').length >= 3 && document.querySelectorAll('article table').length >= 3",
    ],
    "performance": ["document.querySelector('article img').naturalWidth > 500"],
    "generated/project/measured": ["document.querySelectorAll('article table').length >= 4"],
    "generated/models/index": ["document.querySelectorAll('article table tr').length > 20"],
}  # fmt: skip
DRAWN = "[...document.images].every(image => !image.src || (image.complete && image.naturalWidth > 20))"
LOADED = "document.readyState === 'complete'"
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("signatures_unchecked")]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    LOOK.mkdir(parents=True, exist_ok=True)
    with Browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def site() -> Path:
    if not (SITE / "index.html").is_file():
        pytest.skip(f"the site is not in {SITE}; make docs builds it")
    return SITE


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run with its report."""
    folder = tmp_path_factory.mktemp("look")
    smiles = ["C" * n + end for end in ("", "O", "N") for n in range(1, 9)]
    pd.DataFrame({"smiles": smiles, "size": [float(len(text)) for text in smiles]}).to_csv(folder / "mols.csv", index=False)
    small = ["--set", "model.hidden_channels=8", "--set", "model.num_layers=1", "--epochs", "3", "-b", "16", "--ensemble-size", "2"]
    works("train", "-i", folder / "mols.csv", "--target-columns", "size", "-o", folder / "run", "-q", "--report", *small)
    return folder / "run"


def look_at(page: Browser, address: str, name: str, ready: str = LOADED, shown: tuple[str, ...] = ()) -> None:
    """Open a page in every window: it shows what it must, nothing sticks out, no error is written, and the background is dark or light."""
    for width, height, dark in WINDOWS:
        page.look(width, height, dark)
        before = len(page.complaints)
        page.open(address)
        page.until(f"location.href.startsWith({address!r}) && {LOADED} && ({ready}) && {DRAWN}")
        page.shoot(LOOK / f"{name}-{'dark' if dark else 'light'}-{'phone' if width < 500 else 'desktop'}.png")
        assert [expression for expression in shown if not page.run(expression)] == [], (name, width)
        assert page.run(TOO_WIDE) <= 0, f"{name} is wider than {width} pixels"
        light = page.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)")
        assert (light < 200) if dark else (light > 600), (name, dark, light)
        assert page.complaints[before:] == [], name


@pytest.mark.parametrize("name", PAGES)
def test_pages_of_the_site(page: Browser, site: Path, name: str) -> None:
    look_at(page, (site / f"{name}.html").as_uri(), name.replace("/", "-"), shown=tuple(PAGES[name]))
    assert [address for address in page.requests if not address.startswith(("file:", "data:", "http://127.0.0.1"))] == []


def test_search_and_copying(page: Browser, site: Path) -> None:
    page.look(1280, 900, dark=False)
    page.open((site / "index.html").as_uri())
    page.until(f"location.href.endsWith('index.html') && {LOADED} && !!document.querySelector('button.copy')")
    assert page.run(
        "[...document.querySelectorAll('div.highlight')].every(block => block.querySelectorAll('button.copy').length === 1)"
    )
    page.run("navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }")
    page.run(
        "[...document.querySelectorAll('div.highlight')].find(block => block.textContent.includes('>>> import')).lastChild.click()"
    )
    copied = page.run("window.copied")
    assert copied.startswith("import torch\nfrom torch_geometric.loader import DataLoader\n")
    assert "torch.Size" not in copied
    compile(copied, "copied", "exec")  # what a reader pastes runs as it is
    page.run("document.querySelector('form.search input').value = 'needle'; document.querySelector('form.search button').click()")
    page.until("!!document.querySelector('#search-results li a')")
    assert "needle" in page.run("document.querySelector('#search-results').textContent").lower()


def test_a_report(page: Browser, run: Path) -> None:
    drawn = "document.querySelectorAll('figure svg').length >= 2 && document.querySelectorAll('table').length >= 2"
    look_at(page, (run / "report.html").as_uri(), "report", shown=(drawn,))


def test_the_explorer(page: Browser, run: Path) -> None:
    server = Explorer(Answers(run))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        shown = ("document.getElementById('picture').naturalWidth > 500", "!document.getElementById('run').hidden")
        ready = "document.body.dataset.ready === 'yes'"
        look_at(page, server.address, "explorer", f"{ready} && {shown[0]}", shown)
    finally:
        server.shutdown()
        server.server_close()


def test_a_page_that_is_too_wide_is_found(page: Browser, tmp_path: Path) -> None:
    file = tmp_path / "wide.html"
    file.write_text("<!doctype html><meta name=viewport content='width=device-width'><div style='width:2000px'>wide</div>")
    with pytest.raises(AssertionError, match="wide is wider than 1280 pixels"):
        look_at(page, file.as_uri(), "wide")
    (LOOK / "wide-light-desktop.png").unlink()
