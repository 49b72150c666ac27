"""A self-contained HTML page: it needs no network, runs no scripts, and is readable in light mode, in dark mode and in print."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from reign.disk import write_text
from reign.draw import DARK, LIGHT, Picture
from reign.tables import Table

# browsers then load nothing from outside the page, even if a name in a run contained HTML
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
COLOURS = "--paper:{0.paper};--ink:{0.ink};--faint:{0.faint}"
STYLE = f"""
:root{{{COLOURS.format(LIGHT)};color-scheme:light dark}}
@media (prefers-color-scheme:dark){{:root{{{COLOURS.format(DARK)};--blue:#3d9be0}}}}
@media screen and (prefers-color-scheme:dark){{svg[baseProfile]{{filter:invert(.925) hue-rotate(180deg) brightness(1.25)}}}} /* molecules, which RDKit draws on white */
@media print{{:root{{{COLOURS.format(LIGHT)};--blue:initial}}}}
body{{background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif;max-width:72em;margin:2em auto;padding:0 1em}}
h1{{font-size:1.6em}}h2{{font-size:1.25em;margin-top:2em;border-bottom:1px solid var(--faint)}}h3{{font-size:1.05em}}
table{{border-collapse:collapse;margin:1em 0;display:block;overflow-x:auto}}th,td{{padding:.25em .8em;border-bottom:1px solid var(--faint);text-align:right;overflow-wrap:anywhere;min-width:4em}}
th{{overflow-wrap:normal}}th:first-child,td:first-child{{text-align:left}}caption{{text-align:left;white-space:nowrap;font-size:.9em;padding:.3em 0}}
figure{{margin:1em 0;overflow-x:auto}}figure svg{{max-width:100%;height:auto}}@media (max-width:46em){{figure svg{{max-width:44em}}}}figcaption{{font-size:.9em}}
pre{{border:1px solid var(--faint);padding:.8em;overflow-x:auto;font-size:.85em}}summary{{cursor:pointer}}
a{{color:inherit}}
"""


@dataclass
class Page:
    """A page, to which parts are added one by one.

    Args:
        title: its title.
        figures: folder in which pictures are also saved as SVG and PNG; None for no files.
    """

    title: str
    figures: Path | None = None
    parts: list[str] = field(default_factory=list)

    def heading(self, text: str, level: int = 2) -> None:
        """Begin a section."""
        self.parts.append(f"<h{level}>{escape(text)}</h{level}>")

    def text(self, text: str) -> None:
        """Add a paragraph."""
        self.parts.append(f"<p>{escape(text)}</p>")

    def link(self, text: str, place: str) -> None:
        """Add a paragraph with a link to a file, given by its path relative to the page."""
        self.parts.append(f'<p><a href="{escape(place, quote=True)}">{escape(text)}</a></p>')

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "", title: str = "") -> None:
        """Add a table."""
        self.parts.append(Table(title, columns, rows, caption).html())

    def picture(self, name: str, picture: Picture, caption: str = "") -> None:
        """Add a picture, and save it under its name."""
        self.parts.append(
            f'<figure id="{escape(name, quote=True)}">{picture.inline()}<figcaption>{escape(caption)}</figcaption></figure>'
        )
        if self.figures is not None:
            for ending in (".svg", ".png"):
                picture.save(self.figures / f"{name}{ending}")

    def folded(self, title: str, text: str) -> None:
        """Add text that is shown after a click."""
        self.parts.append(f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>")

    def html(self) -> str:
        """The page."""
        title = escape(self.title)
        head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta http-equiv="Content-Security-Policy" content="{POLICY}"><link rel="icon" href="data:,">'
        return (
            f"<!doctype html>\n<html lang=\"en\"><head>{head}<title>{title}</title><style>{STYLE}</style></head>\n"
            f"<body><h1>{title}</h1>\n" + "\n".join(self.parts) + "\n</body></html>\n"
        )  # fmt: skip

    def save(self, file: Path) -> None:
        """Write the page."""
        write_text(file, self.html())
