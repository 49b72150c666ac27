"""A picture, which is shown in notebooks, saved as SVG or PNG, or put into a page; and the colours of pictures, for light and dark backgrounds."""

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

# -- colours that colour-blind readers can tell apart (Okabe & Ito 2008) -------------------------------------------------------

BLUE, ORANGE, GREEN, RED, SKY, PINK, YELLOW = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442"
SERIES = (BLUE, ORANGE, GREEN, PINK, SKY, RED, "#8C6D31", "#7A7A7A")
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


@dataclass(frozen=True)
class Theme:
    """The colours of a picture that are not those of its data.

    Args:
        paper: the background.
        ink: text and outlines.
        faint: secondary parts: nodes outside a subgraph, grids.
    """

    paper: str
    ink: str
    faint: str


LIGHT = Theme(paper="#ffffff", ink="#1c1c1c", faint="#b4b4b4")
DARK = Theme(paper="#16181d", ink="#e8e8e8", faint="#5d636e")


def theme(dark: bool) -> Theme:
    """The theme for a dark or light background."""
    return DARK if dark else LIGHT


def series(number: int) -> dict[str, str]:
    """The style of the line of a series: colours are varied first, then dashes.

    >>> series(0), series(9)["linestyle"]
    ({'color': '#0072B2', 'linestyle': '-', 'marker': 'o'}, '--')
    """
    turn = number // len(SERIES)
    return {
        "color": SERIES[number % len(SERIES)],
        "linestyle": DASHES[turn % len(DASHES)],
        "marker": MARKERS[number % len(MARKERS)],
    }


# -- pictures ------------------------------------------------------------------------------------------------------------------

try:
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError("drawing needs matplotlib: pip install 'reign[plot]'.", name=missing.name) from None

__all__ = ["Axes", "Figure", "Line2D", "LineCollection", "matplotlib"]

ENDINGS = (".svg", ".png")
DPI = 150


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture.

    Args:
        make_svg: function that draws it as SVG.
        make_png: function that draws it as PNG.
        theme: the colours of its background, text and lines; None if it has its own background, like pictures of molecules.
    """

    make_svg: Callable[[], str]
    make_png: Callable[[], bytes]
    theme: Theme | None = LIGHT

    @cached_property
    def svg(self) -> str:
        """The picture as SVG."""
        return self.make_svg()

    def save(self, file: str | Path) -> None:
        """Write the picture to a file whose name ends in .svg or .png."""
        file = check_name(file)
        write_bytes(file, self.svg.encode() if file.suffix.lower() == ".svg" else self.make_png())

    def _repr_svg_(self) -> str:
        return self.svg

    def inline(self) -> str:
        """The picture as an element of a page. Background, text, faint lines and blue take the colours of the page, light or dark."""
        text = self.svg[self.svg.index("<svg") :]
        for name in ("paper", "ink", "faint") if self.theme is not None else ():
            text = re.sub(re.escape(getattr(self.theme, name)) + r"\b", f"var(--{name})", text, flags=re.IGNORECASE)
        return (re.sub(BLUE, f"var(--blue,{BLUE})", text, flags=re.IGNORECASE) if self.theme is not None else text).strip()


def check_name(file: str | Path) -> Path:
    """The path of a picture. Raise ``ValueError`` if its name does not end in .svg or .png."""
    if Path(file).suffix.lower() not in ENDINGS:
        raise ValueError(f"{file} does not end in {' or '.join(ENDINGS)}, which are the supported kinds of pictures.")
    return Path(file)


def new_figure(width: float, height: float, theme: Theme, layout: Literal["constrained"] | None = "constrained") -> Figure:
    """An empty figure of a size in inches. Without a layout, axes are placed at given positions, which is much faster."""
    return Figure(figsize=(width, height), layout=layout, facecolor=theme.paper)


def finish(figure: Figure, name: str, theme: Theme) -> Picture:
    """Turn a figure into a picture. Texts stay texts, and equal figures give equal files. ``name`` makes the ids of its elements unique."""

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
    """Ignore warnings about letters that the font does not have. They are drawn as boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")
        yield


def style_axes(ax: Any, theme: Theme, title: str = "", xlabel: str = "", ylabel: str = "") -> None:
    """Give axes the colours of a theme."""
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
    """Give a legend the colours of a theme."""
    legend.get_frame().set_facecolor(theme.paper)
    legend.get_frame().set_edgecolor(theme.faint)
    for text in legend.get_texts():
        text.set_color(theme.ink)
