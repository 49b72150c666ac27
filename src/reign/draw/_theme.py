"""The colours of pictures, for light and dark backgrounds. Colour-blind readers can tell them apart (Okabe & Ito 2008)."""

from dataclasses import dataclass

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
