"""What Sphinx is told: make the pages of policies, terms, models, the reference, evidence and speed before it reads, and lead links out of docs/ to them."""

import re
import shutil
from pathlib import Path
from typing import Any

from builder.api import api_pages
from builder.evidence import evidence_pages
from builder.examples import example_pages
from builder.models import model_pages
from builder.policies import policy_pages
from builder.project import project_pages, within_the_site
from builder.speed import speed_pages
from builder.terms import term_pages

MAKERS = (policy_pages, term_pages, model_pages, api_pages, example_pages, project_pages, evidence_pages, speed_pages)


def write_pages(folder: Path) -> list[Path]:
    """Write all pages that are made, into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    written = []
    for make in MAKERS:
        for name, text in make().items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            written.append(file)
    return written


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx."""
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / "generated"))
    app.connect("source-read", _lead_links)
    app.connect("autodoc-process-docstring", _plain_docstring)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _lead_links(_: Any, name: str, source: list[str]) -> None:
    text = re.sub(r"\n\n```\n", "\n```\n", source[0])  # doctest wants an empty line at the end of an example, readers do not
    source[0] = within_the_site(text, name)


def _plain_docstring(_: Any, kind: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are read by people first: a star or a bar in them is a star or a bar."""
    inside = False
    for number, line in enumerate(lines):
        inside = (inside and (not line.strip() or line.startswith("    "))) or line.strip().startswith(".. math")
        if not inside and not line.lstrip().startswith((">>>", "...", ":", "..")):
            lines[number] = re.sub(r"(?<![\\*`:])([*|])(?=\w)|(?<=\w)(_)(?=[\s,.;:)]|$)", r"\\\1\2", line)
