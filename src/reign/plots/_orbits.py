"""Draw the cube of the paper with its five orbits, and the two symmetries of a bag side by side."""

import numpy as np
from matplotlib.patches import Ellipse, Patch, Rectangle
from numpy.typing import NDArray

from reign.draw import GREEN, ORANGE, RED, SKY, Axes, Picture, Theme, finish, new_figure, style_legend, theme
from reign.theory import orbits

N = 5
PURPLE = "#7B3294"
# pattern of (subgraph, node, node): in the paper's letters, its meaning, its colour
ORBITS = {
    "aaa": ("iii", "root nodes: x[i,i]", PURPLE),
    "abb": ("ijj", "non-root nodes: x[k,i]", GREEN),
    "aab": ("iij", "edges into roots", ORANGE),
    "aba": ("iji", "edges out of roots", SKY),
    "abc": ("ijk", "edges between non-roots", "#C9C9C9"),
}


def pattern(index: tuple[int, ...]) -> str:
    """The orbit of an index, as letters in the order of first appearance.

    >>> pattern((2, 0, 0))
    'abb'
    """
    seen = list(dict.fromkeys(index))
    return "".join("abcdef"[seen.index(value)] for value in index)


def draw_orbits(dark: bool = False) -> Picture:
    """Draw the tensor of a bag for n = 5: all entries, those of nodes, and those of edges at roots."""
    assert set(ORBITS) == set(orbits(3))
    look = theme(dark)
    made = new_figure(9.2, 4.6, look, layout=None)
    made.text(0.02, 0.95, "The five orbits of a bag of node-based subgraphs", color=look.ink, fontsize=12)
    parts = [
        ("all n x n x n entries", tuple(ORBITS)),
        ("x: values of nodes", ("aaa", "abb")),
        ("A: edges at roots", ("aab", "aba")),
    ]
    for place, (title, shown) in enumerate(parts):
        ax = made.add_axes((0.025 + place * 0.325, 0.17, 0.315, 0.74), projection="3d")
        _cube(ax, shown, look)
        made.text(0.18 + place * 0.325, 0.87, title, ha="center", color=look.ink, fontsize=9)
    handles = [
        Patch(facecolor=colour, edgecolor=look.ink, label=f"{letters}: {meaning}") for letters, meaning, colour in ORBITS.values()
    ]
    style_legend(made.legend(handles=handles, loc="lower center", ncols=3, fontsize=9, frameon=False), look)
    return finish(made, "orbits", look)


def _cube(ax: Axes, shown: tuple[str, ...], look: Theme) -> None:
    filled: NDArray[np.bool_] = np.zeros((N, N, N), dtype=bool)
    colours = np.full((N, N, N), "", dtype=object)
    for index in np.ndindex(N, N, N):
        subgraph, row, column = index
        kind = pattern(index)
        if kind in shown:
            at = (column, subgraph, N - 1 - row)  # subgraphs go back, rows down, columns to the right
            filled[at], colours[at] = True, ORBITS[kind][2]
    colours[~filled] = look.paper
    ax.voxels(filled, facecolors=colours, edgecolor=look.ink, linewidth=0.35, shade=False)  # type: ignore[attr-defined]
    ax.set_xlim(0, N)
    ax.set_ylim(0, N)
    ax.set_zlim(0, N)  # type: ignore[attr-defined]
    ax.view_init(elev=22, azim=-58)  # type: ignore[attr-defined]
    ax.set_facecolor("none")
    ax.set_axis_off()
    ax.set_box_aspect((1, 1, 1))  # type: ignore[arg-type]
    for words, at in (("node j", (N / 2, -1.0, -0.6)), ("subgraph", (N + 0.9, N / 2, -0.4)), ("node i", (-0.75, 0, N / 2))):
        ax.text(*at, words, color=look.ink, fontsize=7, ha="center")  # type: ignore[call-arg]
    ax.set_gid("-".join(shown))


def draw_symmetry(dark: bool = False) -> Picture:
    """Draw the matrix of x[k, i] under one permutation of both nodes and subgraphs, and under two independent permutations."""
    look = theme(dark)
    made = new_figure(11.4, 3.9, look, layout=None)
    ax: Axes = made.add_axes((0, 0, 1, 1), xlim=(0, 11.4), ylim=(0, 3.9), aspect="equal")
    ax.axis("off")
    ax.text(
        0.2,
        3.6,
        "Two symmetries of a bag: only the first keeps the roots x[i,i] on the diagonal",
        color=look.ink,
        fontsize=12,
        va="center",
    )
    sigma, tau = [2, 0, 3, 1, 4], [1, 4, 0, 2, 3]
    _matrix(ax, 0.5, list(range(N)), list(range(N)), "a bag x[k,i]", "roots on the diagonal", look, "given")
    _matrix(ax, 3.0, sigma, sigma, "one permutation, $S_n$", "roots stay on the diagonal", look, "one")
    _matrix(ax, 5.5, tau, sigma, r"two permutations, $S_n \times S_n$", "roots are anywhere", look, "two")
    for x, label in ((2.36, r"$\sigma$"), (4.86, r"$\tau, \sigma$")):
        ax.annotate("", (x + 0.36, 1.9), (x, 1.9), arrowprops={"arrowstyle": "->", "color": look.ink})
        ax.text(x + 0.17, 2.03, label, color=look.ink, ha="center", fontsize=9)
    ax.text(0.15, 1.9, "subgraph k", color=look.ink, rotation=90, va="center", ha="center", fontsize=7)
    _spaces(ax, look)
    return finish(made, "symmetry", look)


def _matrix(ax: Axes, x: float, rows: list[int], columns: list[int], title: str, below: str, look: Theme, name: str) -> None:
    """The entry at (r, c) is x[rows[r], columns[c]]."""
    cell = 0.36
    ax.text(x + N * cell / 2, 3.2, title, color=look.ink, ha="center", fontsize=9)
    for r, k in enumerate(rows):
        ax.text(x - 0.1, 2.82 - (r + 0.5) * cell, str(k), color=look.ink, ha="right", va="center", fontsize=8)
        ax.text(x + (r + 0.5) * cell, 2.9, str(columns[r]), color=look.ink, ha="center", va="center", fontsize=8)
        for c, i in enumerate(columns):
            root = k == i
            at = (x + c * cell, 2.82 - (r + 1) * cell)
            colour = PURPLE if root else GREEN
            ax.add_patch(
                Rectangle(at, cell, cell, fc=colour, ec=look.paper, lw=1.2, alpha=1 if root else 0.45, gid=f"{name}-{'root' if root else 'other'}-{r}-{c}")
            )  # fmt: skip
            if root:
                ax.text(at[0] + cell / 2, at[1] + cell / 2, "r", color="#ffffff", ha="center", va="center", fontsize=8)
    ax.text(x + N * cell / 2, 0.7, below, color=look.ink, ha="center", fontsize=8)


def _spaces(ax: Axes, look: Theme) -> None:
    """Draw the spaces of functions: a smaller symmetry group leaves more functions."""
    kinds = [
        (3.4, 2.75, SKY, r"equivariant to $S_n$: 3-IGN", 2.92),
        (2.6, 1.85, ORANGE, "ReIGN(2), SUN", 1.98),
        (1.8, 0.95, RED, r"to $S_n \times S_n$: ESAN", 1.0),
    ]
    for width, height, colour, text, y in kinds:
        ax.add_patch(Ellipse((9.5, 0.5 + height / 2), width, height, fc=colour, ec=look.ink, alpha=0.35, lw=1))
        ax.text(9.5, y, text, color=look.ink, ha="center", va="center", fontsize=8)
    ax.text(9.5, 0.25, "a smaller symmetry group leaves more functions", color=look.ink, ha="center", va="center", fontsize=8)
