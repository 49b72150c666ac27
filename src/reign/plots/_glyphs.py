"""The marks of layer figures: squares for sums over all, triangles for sums over neighbours, on the n x n matrix of x[k, i]."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle

from reign.draw import Axes, Theme
from reign.plots._cells import How, Reading

Corners = list[tuple[float, float]]
SQUARE: Corners = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
TRIANGLE: Corners = [(0.02, 0.05), (0.98, 0.05), (0.5, 0.95)]
UPPER: Corners = [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0)]  # one half of a square that is shared by two
LOWER: Corners = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)]


@dataclass(frozen=True)
class Mark:
    """The entries that one parameter reads, and its colour."""

    colour: str
    reading: Reading


@dataclass(frozen=True)
class Matrix:
    """A matrix in a figure.

    Args:
        x, y: its upper left corner.
        cell: the size of an entry.
        rows, columns: its number of entries.
        target: the entry that is updated.
    """

    x: float
    y: float
    cell: float
    rows: int
    columns: int
    target: tuple[int, int]

    def corner(self, k: int, i: int) -> tuple[float, float]:
        """The lower left corner of an entry."""
        return self.x + i * self.cell, self.y - (k + 1) * self.cell


def draw_matrix(ax: Axes, matrix: Matrix, marks: Sequence[Mark], look: Theme, name: str) -> None:
    """Draw a matrix with all entries that are read for its target. The target has a thick frame."""
    shapes: list[tuple[Corners, str]] = []
    outlines: list[tuple[Corners, str]] = []
    for k in range(matrix.rows):
        for i in range(matrix.columns):
            here = [(m.colour, m.reading.how) for m in marks if (k, i) in m.reading.cells and not m.reading.nested]
            inner = [m.colour for m in marks if (k, i) in m.reading.cells and m.reading.nested]
            together = len(here) > 2
            glyphs = _glyphs([*here, *((colour, "local") for colour in inner)] if together else here)
            shapes += [(_place(shape, matrix, k, i, 0.1), colour) for colour, shape in glyphs[: len(here)]]
            outlines += [(_place(shape, matrix, k, i, 0.1), colour) for colour, shape in glyphs[len(here) :]]
            if not together:
                corner = [(0.52 + 0.42 * x, 0.52 + 0.42 * y) for x, y in TRIANGLE] if here else TRIANGLE
                outlines += [(_place(corner, matrix, k, i, 0.0 if here else 0.2), colour) for colour in inner]
    grid = [_place(SQUARE, matrix, k, i, 0.0) for k in range(matrix.rows) for i in range(matrix.columns)]
    ax.add_collection(PolyCollection(grid, facecolors="none", edgecolors=look.faint, linewidths=0.6))
    if shapes:
        corners, colours = zip(*shapes, strict=True)
        made = PolyCollection(corners, facecolors=colours, edgecolors=look.ink, linewidths=0.3, zorder=2, gid=f"{name}-marks")
        ax.add_collection(made)
    if outlines:
        corners, colours = zip(*outlines, strict=True)
        made = PolyCollection(corners, facecolors=look.paper, edgecolors=colours, linewidths=1.0, zorder=3, gid=f"{name}-nested")
        ax.add_collection(made)
    thick = 2.0 if matrix.cell > 0.1 else 1.0
    ax.add_patch(
        Rectangle(matrix.corner(*matrix.target), matrix.cell, matrix.cell, fill=False, ec=look.ink, lw=thick, zorder=4, gid=f"{name}-target")
    )  # fmt: skip


def _place(shape: Corners, matrix: Matrix, k: int, i: int, margin: float) -> Corners:
    left, low = matrix.corner(k, i)
    return [
        (left + matrix.cell * (margin + (1 - 2 * margin) * x), low + matrix.cell * (margin + (1 - 2 * margin) * y))
        for x, y in shape
    ]


def _glyphs(here: Sequence[tuple[str, How]]) -> list[tuple[str, Corners]]:
    """The shapes of one entry. A single shape fills it, a local and a global sum share it as two triangles, and more are on a small grid."""
    if len(here) == 1:
        return [(colour, TRIANGLE if how == "local" else SQUARE) for colour, how in here]
    if sorted(how == "local" for _, how in here) == [False, True]:
        return [(colour, UPPER if how == "local" else LOWER) for colour, how in here]
    side = max(1, math.ceil(math.sqrt(len(here))))
    top = 0.5 + -(-len(here) // side) / side / 2
    out = []
    for number, (colour, how) in enumerate(here):
        row, column = divmod(number, side)
        shape = TRIANGLE if how == "local" else SQUARE
        at = [((column + 0.08 + 0.84 * x) / side, top - (row + 1 - 0.08 - 0.84 * y) / side) for x, y in shape]
        out.append((colour, at))
    return out
