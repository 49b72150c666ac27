"""Pictures from plain values: colours for light and dark backgrounds, graphs and their subgraphs. This needs
``pip install 'reign[plot]'``."""

from reign.draw._bag import Subgraph, draw_bag, place

from reign.draw._picture import (  # isort: skip
    BLUE, DARK, ENDINGS, GREEN, LIGHT, ORANGE, PINK, RED, SERIES, SKY, YELLOW, Axes, Figure, Picture, Theme, check_name, finish,
    new_figure, series, style_axes, style_legend, theme,
)  # fmt: skip

__all__ = [
    "BLUE", "DARK", "ENDINGS", "GREEN", "LIGHT", "ORANGE", "PINK", "RED", "SERIES", "SKY", "YELLOW", "Axes", "Figure",
    "Picture", "Subgraph", "Theme", "check_name", "draw_bag", "finish", "new_figure", "place", "series", "style_axes",
    "style_legend", "theme",
]  # fmt: skip
