"""Pictures and pages as tests see them: the structure of an SVG, and what a browser makes of a page."""

import html
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

SVG = "{http://www.w3.org/2000/svg}"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--allow-file-access-from-files",
)  # fmt: skip


def structure(svg: str) -> dict[str, Any]:
    """What is in a picture, wherever it is: its size, its texts, how many shapes each named part has; of molecules atoms and bonds."""
    tree = ET.fromstring(svg)
    named = {}
    for group in tree.iter(f"{SVG}g"):
        name = group.get("id", "")
        if re.fullmatch(r"[a-z0-9-]*[a-z]-[a-z0-9-]+", name):
            named[name] = sum(part.tag in (f"{SVG}path", f"{SVG}use") for part in group.iter())
    texts = sorted("".join(text.itertext()).strip() for text in tree.iter(f"{SVG}text"))
    size = [round(float(re.sub("[a-z]*$", "", tree.get(side, "0")))) for side in ("width", "height")]
    classes = Counter(re.sub(r"\d+", "", word) for part in tree.iter() for word in part.get("class", "").split())
    return {"size": size, "parts": named, "texts": texts, **({"classes": dict(sorted(classes.items()))} if classes else {})}


def browser(page: Path, folder: Path) -> tuple[str, list[str]]:
    """The page after Chromium loaded it, and the errors it wrote to its console; a skip where there is no Chromium."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not on the PATH")
    done = subprocess.run(
        [program, *FLAGS, f"--user-data-dir={folder}/profile", "--enable-logging=stderr", "--virtual-time-budget=4000", "--dump-dom",
         page.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def look_at(pages: dict[str, Path], folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What a browser finds on pages that it opens from disk, in one go: tables, pictures, and what they asked to load; and console errors."""
    script = """
    addEventListener('load', () => setTimeout(() => {
      const found = {};
      for (const frame of document.querySelectorAll('iframe')) {
        const page = frame.contentDocument;
        found[frame.id] = {
          title: page.title,
          headings: [...page.querySelectorAll('h2')].map(h => h.textContent),
          tables: [...page.querySelectorAll('table')].map(t => t.rows.length),
          figures: [...page.querySelectorAll('figure')].map(f => f.id),
          drawn: [...page.querySelectorAll('figure svg')].every(s => s.getBoundingClientRect().width > 50),
          loaded: frame.contentWindow.performance.getEntriesByType('resource').map(e => e.name),
          wide: page.documentElement.scrollWidth - page.documentElement.clientWidth,
        };
      }
      document.getElementById('answer').textContent = JSON.stringify(found);
    }, 200));
    """
    frames = "".join(
        f'<iframe id="{name}" src="{page.resolve().as_uri()}" width="1100" height="900"></iframe>' for name, page in pages.items()
    )
    outer = folder / "frames.html"
    outer.write_text(f"<!doctype html><meta charset=utf-8><body>{frames}<pre id=answer></pre><script>{script}</script>")
    dom, errors = browser(outer, folder)
    found: dict[str, Any] = _answer(dom)
    return found, errors


def _answer(dom: str) -> Any:
    answer = re.search(r'<pre id="answer">(.*?)</pre>', dom, re.DOTALL)
    assert answer is not None, dom[-2000:]
    return json.loads(html.unescape(answer.group(1)))


def overlaps(pictures: dict[str, str], folder: Path) -> dict[str, list[list[str]]]:
    """For each picture the pairs of texts that lie upon each other by more than a point in both directions, as a browser draws them."""
    script = """
    const found = {};
    for (const box of document.querySelectorAll('div.picture')) {
      const texts = [...box.querySelectorAll('text')].filter(t => t.textContent.trim());
      const rects = texts.map(t => t.getBoundingClientRect());
      found[box.id] = [];
      for (let a = 0; a < rects.length; a++) for (let b = a + 1; b < rects.length; b++) {
        const wide = Math.min(rects[a].right, rects[b].right) - Math.max(rects[a].left, rects[b].left);
        const high = Math.min(rects[a].bottom, rects[b].bottom) - Math.max(rects[a].top, rects[b].top);
        if (wide > 1.5 && high > 3) found[box.id].push([texts[a].textContent.trim(), texts[b].textContent.trim()]);
      }
    }
    document.getElementById('answer').textContent = JSON.stringify(found);
    """
    boxes = "".join(f'<div class="picture" id="{name}">{svg[svg.index("<svg") :]}</div>' for name, svg in pictures.items())
    page = folder / "pictures.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><body>{boxes}<pre id=answer></pre><script>{script}</script>")
    dom, _ = browser(page, folder)
    found: dict[str, list[list[str]]] = _answer(dom)
    return found
