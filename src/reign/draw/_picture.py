"""A picture: shown in notebooks, saved as SVG or PNG, or put into a page."""

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from reign.disk import write_bytes
from reign.draw._matplotlib import Figure, matplotlib
from reign.draw._theme import LIGHT, Theme

ENDINGS = (".svg", ".png")
DPI = 150


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture that was drawn.

    Args:
        make_svg: draws it as SVG.
        make_png: draws it as PNG.
        theme: the colours of the paper it is drawn for; None if it brings its own paper, as molecules do.
    """

    make_svg: Callable[[], str]
    make_png: Callable[[], bytes]
    theme: Theme | None = LIGHT

    @cached_property
    def svg(self) -> str:
        """The picture as SVG."""
        return self.make_svg()

    def save(self, file: str | Path) -> None:
        """Write the picture; the name of the file ends in .svg or .png."""
        file = check_name(file)
        write_bytes(file, self.svg.encode() if file.suffix.lower() == ".svg" else self.make_png())

    def _repr_svg_(self) -> str:
        return self.svg

    def inline(self) -> str:
        """The picture as an element of a page: paper, ink and faint lines take the colours of the page, light or dark."""
        text = self.svg[self.svg.index("<svg") :]
        for name in ("paper", "ink", "faint") if self.theme is not None else ():
            text = re.sub(re.escape(getattr(self.theme, name)) + r"\b", f"var(--{name})", text, flags=re.IGNORECASE)
        return text.strip()


def check_name(file: str | Path) -> Path:
    """The path of a picture; ``ValueError`` if its name has another ending than .svg or .png."""
    if Path(file).suffix.lower() not in ENDINGS:
        raise ValueError(f"{file} does not end in {' or '.join(ENDINGS)}, which are the kinds of pictures that can be written.")
    return Path(file)


def new_figure(width: float, height: float, theme: Theme, layout: Literal["constrained"] | None = "constrained") -> Figure:
    """An empty figure of a size in inches; without a layout axes are put where they are told to be, which is far quicker."""
    return Figure(figsize=(width, height), layout=layout, facecolor=theme.paper)


def finish(figure: Figure, name: str, theme: Theme) -> Picture:
    """A figure as a picture. Texts stay texts, and the same figure is always the same file; ``name`` keeps its ids apart from others'."""

    def svg() -> str:
        out = io.StringIO()
        with _any_letters(), matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "reign", "Title": name})
        return out.getvalue()

    def png() -> bytes:
        made = io.BytesIO()
        with _any_letters():
            figure.savefig(made, format="png", dpi=DPI, metadata={"Software": "reign"})
        return made.getvalue()

    return Picture(svg, png, theme)


@contextmanager
def _any_letters() -> Iterator[None]:
    """Names may have letters that the font has not; they are drawn as boxes without a word."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")
        yield


def style_axes(ax: Any, theme: Theme, title: str = "", xlabel: str = "", ylabel: str = "") -> None:
    """Axes in the colours of a theme."""
    ax.set_facecolor(theme.paper)
    ax.grid(True, color=theme.faint, linewidth=0.5, alpha=0.5)
    ax.set_axisbelow(True)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(theme.ink)
    ax.tick_params(which="both", colors=theme.ink, labelsize=8)
    ax.set_title(title, color=theme.ink, fontsize=10)
    ax.set_xlabel(xlabel, color=theme.ink, fontsize=9)
    ax.set_ylabel(ylabel, color=theme.ink, fontsize=9)


def style_legend(legend: Any, theme: Theme) -> None:
    """A legend in the colours of a theme."""
    legend.get_frame().set_facecolor(theme.paper)
    legend.get_frame().set_edgecolor(theme.faint)
    for text in legend.get_texts():
        text.set_color(theme.ink)
