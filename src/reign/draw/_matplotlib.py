"""Import matplotlib, or raise an error that says what to install."""

try:
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError("drawing needs matplotlib: pip install 'reign[plot]'.", name=missing.name) from None

__all__ = ["Axes", "Figure", "Line2D", "LineCollection", "matplotlib"]
