"""The figure of a layer: the entries that are read to update x[k, i] (top) and the root x[i, i] (bottom), one colour per parameter."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle

from reign.draw import BLUE, GREEN, ORANGE, RED, SKY, YELLOW, Axes, Picture, Theme, finish, new_figure, theme
from reign.nn import Model, latex_formula, list_models
from reign.plots._readings import How, LayerFigure, Parameter, Reading, figure_of_terms, figures_of_model, read_cells

# -- marks: squares for sums over all, triangles for sums over neighbours ------------------------------------------------------

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


# -- the figure ----------------------------------------------------------------------------------------------------------------

N, SUB, NODE = 5, 1, 3  # the matrix, and its entry x[k, i] that is updated
WIDE = 3.3  # width in inches of a line about a parameter
KNOWN = {
    ("own", False): "#7A7A7A", ("root", False): "#AA4499", ("node_root", False): GREEN, ("readout", False): YELLOW, ("local", False): ORANGE,
    ("needle", False): RED, ("transpose", False): SKY, ("swap_local", False): BLUE, ("node_readout", False): "#44AA99",
    ("local_others", False): ORANGE, ("root_msg", False): "#AA4499",
    ("own", True): "#88CC33", ("readout", True): BLUE, ("local", True): SKY, ("needle", True): "#C0407A",
}  # fmt: skip
OTHERS = (
    "#332288", "#117733", "#DDCC77", "#CC6677", "#661100", "#999933", "#6699CC", "#AA4466", "#4477AA", "#228833", "#CCBB44", "#EE6677",
    "#BBBBBB", "#77AADD", "#EE8866", "#FFAABB", "#99DDFF", "#BBCC33", "#AAAA00", "#DDDDDD", "#225522", "#663333", "#666633", "#222255",
)  # fmt: skip


def draw_layer(
    model: str | Model | None = None, terms: Sequence[str] = (), root_terms: Sequence[str] | None = None, dark: bool = False
) -> Picture:
    """Draw the layers of a model, or one layer given by lists of terms, with a line about each parameter.

    If a model has several kinds of layers, all kinds are drawn below each other, with the numbers of their layers.

    Args:
        model: a model, or the name of one, which is drawn with three layers.
        terms, root_terms: lists of terms, if no model is given.
        dark: whether to draw on a dark background.
    """
    figures = figures_of_model(model) if model is not None else [figure_of_terms(terms, root_terms)]
    look, colours = theme(dark), _colours(figures)
    cell, line = 0.32, 0.62
    columns = 1 if max(len(part) for figure in figures for part in (figure.off, figure.on)) <= 8 else 2
    branches = [(f, "k,i", figure.off, (SUB, NODE)) for f, figure in enumerate(figures)]
    branches += [(f, "i,i", figure.on, (NODE, NODE)) for f, figure in enumerate(figures) if not figure.row]
    branches.sort(key=lambda branch: branch[0])
    heights = [max(N * cell + 0.6, -(-len(parameters) // columns) * line + 0.5) for _, _, parameters, _ in branches]
    width = max(7.3, N * cell + 1.2 + columns * WIDE)
    total = 0.6 + sum(heights) + 0.75
    made = new_figure(width, total, look, layout=None)
    ax: Axes = made.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(0, total), aspect="equal")
    ax.axis("off")
    _text(ax, 0.2, total - 0.3, figures[0].title, look, 13)
    y = total - 0.6
    for (f, target, parameters, at), height in zip(branches, heights, strict=True):
        figure, name = figures[f], (f"kind-{f}-" if f else "") + target.replace(",", "-")
        _text(ax, 0.2, y - 0.2, _caption(target, figure), look, 9)
        rows = 1 if figure.row else N
        at = (0, at[1]) if figure.row else at
        matrix = Matrix(0.55, y - 0.5, cell, rows, N, at)
        draw_matrix(ax, matrix, _marks(parameters, colours, at), look, name)
        _axes_of_matrix(ax, matrix, look)
        for p, parameter in enumerate(parameters):
            column, row = divmod(p, -(-len(parameters) // columns))
            x, low = N * cell + 1.1 + column * WIDE, y - 0.45 - row * line
            small = Matrix(x, low, 0.085, rows, N, at)
            draw_matrix(ax, small, _marks([parameter], colours, at), look, f"{name}-{p}")
            formulas = ",\\; ".join(map(latex_formula, parameter.formulas))
            _text(ax, x + 0.58, low - 0.1, f"{parameter.name}  ({parameter.kind})", look, 8)
            _text(ax, x + 0.58, low - 0.32, f"${formulas}$", look, 8.5)
        y -= height
    _key(ax, 0.55, 0.35, look)
    return finish(made, f"layer {figures[0].title}", look)


def draw_layers(models: Sequence[str] | None = None, dark: bool = False) -> Picture:
    """Draw the layers of several models side by side, in the same colours; all models if not given. A model with several kinds of layers has
    a column for each."""
    chosen = [name for name in list_models() if name != "subgraphgnn"] if models is None else models
    kinds = [(name, figure) for name in chosen for figure in figures_of_model(name)]
    figures = [figure for _, figure in kinds]
    names = [f"{name}-{figure.at[0]}" if figure.at else name for name, figure in kinds]
    look, colours = theme(dark), _colours(figures)
    cell, gap = 0.24, 0.3
    across = min(len(figures), 7)
    rows = -(-len(figures) // across)
    shown = list(dict.fromkeys((_base(p), p.roots) for f in figures for p in (*f.off, *f.on)))
    per_line = max(2, int((across * (N * cell + gap) + 0.6) / 2.1))
    lines = -(-len(shown) // per_line)
    width, height = max(4.6, across * (N * cell + gap) + 0.6), rows * (2 * N * cell + 0.75) + 0.9 + lines * 0.24
    made = new_figure(width, height, look, layout=None)
    ax: Axes = made.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(0, height), aspect="equal")
    ax.axis("off")
    for f, figure in enumerate(figures):
        row, column = divmod(f, across)
        x, y = 0.5 + column * (N * cell + gap), height - 0.3 - row * (2 * N * cell + 0.75)
        _text(ax, x + N * cell / 2, y, figure.title + (f", {figure.numbers}" if figure.at else ""), look, 8.5, "center")
        if column == 0:
            _text(ax, x - 0.28, y - 0.2 - N * cell / 2, "x[k,i]", look, 8, "center", 90)
            _text(ax, x - 0.28, y - 0.35 - 1.5 * N * cell, "x[i,i]", look, 8, "center", 90)
        for part, (parameters, at) in enumerate([(figure.off, (SUB, NODE)), (figure.on, (NODE, NODE))]):
            if figure.row and part:
                continue
            at = (0, at[1]) if figure.row else at
            matrix = Matrix(x, y - 0.18 - part * (N * cell + 0.15), cell, 1 if figure.row else N, N, at)
            draw_matrix(ax, matrix, _marks(parameters, colours, at), look, f"{names[f]}-{'on' if part else 'off'}")
    for s, (name, roots) in enumerate(shown):
        row, column = divmod(s, per_line)
        x, y = 0.4 + column * 2.1, 0.55 + (lines - row - 1) * 0.24
        ax.add_collection(
            PolyCollection([_box(SQUARE, x, y, 0.13)], facecolors=[colours[name, roots]], edgecolors=look.ink, linewidths=0.4)
        )
        _text(ax, x + 0.2, y + 0.06, f"{name}{' (of roots)' if roots else ''}", look, 7)
    _key(ax, 0.4, 0.18, look)
    return finish(made, "layers", look)


def _marks(parameters: Sequence[Parameter], colours: dict[tuple[str, bool], str], at: tuple[int, int]) -> list[Mark]:
    marks = []
    for parameter in parameters:
        for formula in parameter.formulas:
            reading = read_cells(formula, *at, N)
            marks.append(Mark(colours[_base(parameter), parameter.roots], reading))
    return marks


def _base(parameter: Parameter) -> str:
    """The term that determines the colour of a parameter: for merged terms, the sum over neighbours."""
    parts = parameter.name.split("+")
    return parts[1] if parts[0] == "own" and len(parts) > 1 else parts[0]


def _colours(figures: Sequence[LayerFigure]) -> dict[tuple[str, bool], str]:
    """A colour for each parameter. Common terms, such as those of SUN and DSS, have fixed colours; the others get the remaining ones."""
    needed = list(dict.fromkeys((_base(p), p.roots) for f in figures for p in (*f.off, *f.on)))
    rest = (key for key in needed if key not in KNOWN)
    return {**KNOWN, **{key: OTHERS[number % len(OTHERS)] for number, key in enumerate(rest)}}


def _caption(target: str, figure: LayerFigure) -> str:
    where = f"layer{'s' if len(figure.at) > 1 else ''} {figure.numbers}: " if figure.at else ""
    if figure.row:
        return f"{where}update of node i of the graph itself, the only subgraph"
    return where + ("update of x[k,i], node i in subgraph k" if target == "k,i" else "update of x[i,i], the root of subgraph i")


def _axes_of_matrix(ax: Axes, matrix: Matrix, look: Theme) -> None:
    k, i = matrix.target
    _text(ax, matrix.x - 0.12, matrix.y - (k + 0.5) * matrix.cell, "k" if k != i else "i", look, 8, "right")
    _text(ax, matrix.x + (i + 0.5) * matrix.cell, matrix.y - matrix.rows * matrix.cell - 0.12, "i", look, 8, "center")


def _key(ax: Axes, x: float, y: float, look: Theme) -> None:
    """The meaning of squares and triangles."""
    kinds = [
        ([SQUARE], "one entry, or a sum over all"), ([TRIANGLE], "sum over neighbours"), ([UPPER, LOWER], "both"),
    ]  # fmt: skip
    for shapes, text in kinds:
        made = PolyCollection(
            [_box(s, x, y - 0.07, 0.14) for s in shapes], facecolors=look.faint, edgecolors=look.ink, linewidths=0.4
        )
        ax.add_collection(made)
        _text(ax, x + 0.2, y, text, look, 7)
        x += 0.4 + 0.058 * len(text)
    ax.add_collection(
        PolyCollection([_box(TRIANGLE, x, y - 0.07, 0.14)], facecolors=look.paper, edgecolors=look.ink, linewidths=1.0)
    )
    _text(ax, x + 0.2, y, "over neighbours, of sums over subgraphs", look, 7)


def _box(shape: Sequence[tuple[float, float]], x: float, y: float, size: float) -> list[tuple[float, float]]:
    return [(x + size * a, y + size * b) for a, b in shape]


def _text(ax: Axes, x: float, y: float, text: str, look: Theme, size: float | int, ha: str = "left", turn: int = 0) -> None:
    ax.text(x, y, text, ha=ha, va="center", fontsize=size, color=look.ink, rotation=turn)
