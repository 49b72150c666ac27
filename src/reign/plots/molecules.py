"""Pictures of molecules, and explanations of predictions for them. This needs ``pip install 'reign[plot,chem]'``.

Molecules are drawn with RDKit: with highlighted parts, with scores on atoms and bonds, and with the subgraphs of a bag. Explanations are drawn on the
molecule and on the n x n matrix of x[k, i], and written as a page.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps

from reign.bags import SubgraphBag
from reign.data.molecules import Molecule, need_columns, read_table
from reign.draw import BLUE, LIGHT, Picture, Theme, finish, new_figure, style_axes, theme
from reign.explain import Attribution, Explanation, explain
from reign.plots._page import Page
from reign.tables import number
from reign.train.predict.nearest import WARNING
from reign.train.predict.predictor import Predictor

__all__ = [
    "Explained",
    "Panel",
    "draw_molecule_bag",
    "draw_molecules",
    "draw_pairs",
    "draw_scores",
    "explain_smiles",
    "score_rows",
    "smiles_of_file",
    "write_explanations",
]

Colour = tuple[float, float, float]
MEMBER, ROOT = (0.55, 0.78, 0.93), (0.98, 0.66, 0.15)  # light blue and orange, on which atom labels are readable
WIDE, HIGH, SHOWN = 230, 190, 36


@dataclass(frozen=True)
class Panel:
    """A molecule with highlighted atoms and bonds.

    Args:
        molecule: the molecule.
        legend: a line below it.
        atoms, bonds: colours of highlighted atoms and bonds.
        radii: sizes of highlighted atoms.
        notes: small texts next to atoms.
    """

    molecule: Molecule
    legend: str = ""
    atoms: Mapping[int, Colour] = field(default_factory=dict)
    bonds: Mapping[int, Colour] = field(default_factory=dict)
    radii: Mapping[int, float] = field(default_factory=dict)
    notes: Mapping[int, str] = field(default_factory=dict)


def draw_molecules(panels: Sequence[Panel], across: int = 4, dark: bool = False, size: tuple[int, int] = (WIDE, HIGH)) -> Picture:
    """Draw molecules side by side."""
    across = max(1, min(across, len(panels)))
    return Picture(
        lambda: _render(panels, across, dark, size, "svg").decode(),
        lambda: _render(panels, across, dark, size, "png"),
        None,
    )


def _render(panels: Sequence[Panel], across: int, dark: bool, size: tuple[int, int], kind: str) -> bytes:
    from rdkit.Chem.Draw import rdMolDraw2D

    scale = 1 if kind == "svg" else 2
    wide, high = size[0] * scale, size[1] * scale
    make = rdMolDraw2D.MolDraw2DSVG if kind == "svg" else rdMolDraw2D.MolDraw2DCairo
    drawer = make(wide * across, high * max(1, math.ceil(len(panels) / across)), wide, high)
    options: Any = drawer.drawOptions()
    options.legendFontSize = 14 * scale
    options.minFontSize = -1
    options.maxFontSize = 14 * scale
    options.bondLineWidth = 1.5 * scale
    options.annotationFontScale = 0.7
    options.fillHighlights = True
    options.drawMolsSameScale = False
    look = theme(dark)
    if dark:
        rdMolDraw2D.SetDarkMode(options)
    options.setBackgroundColour(_rgb(look.paper))
    options.setLegendColour(_rgb(look.ink))
    if panels:
        drawer.DrawMolecules(
            [_noted(panel) for panel in panels],
            legends=[panel.legend for panel in panels],
            highlightAtoms=[list(panel.atoms) for panel in panels],
            highlightBonds=[list(panel.bonds) for panel in panels],
            highlightAtomColors=[dict(panel.atoms) for panel in panels],
            highlightBondColors=[dict(panel.bonds) for panel in panels],
            highlightAtomRadii=[{i: panel.radii.get(i, 0.35) for i in panel.atoms} for panel in panels],
        )
    drawer.FinishDrawing()
    text = drawer.GetDrawingText()
    return text.encode() if isinstance(text, str) else bytes(text)


def _noted(panel: Panel) -> object:
    from rdkit import Chem
    from rdkit.Chem import rdDepictor

    mol = Chem.Mol(panel.molecule.mol)
    for i, note in panel.notes.items():
        mol.GetAtomWithIdx(i).SetProp("atomNote", note)
    rdDepictor.Compute2DCoords(mol)
    return mol


def _rgb(colour: str) -> tuple[float, float, float, float]:
    return int(colour[1:3], 16) / 255, int(colour[3:5], 16) / 255, int(colour[5:7], 16) / 255, 1.0


def draw_molecule_bag(molecule: Molecule, bag: SubgraphBag, subgraphs: Sequence[int] | None = None, dark: bool = False) -> Picture:
    """Draw a molecule with numbered atoms, and its subgraphs: members are blue, the root is orange, other atoms are plain."""
    chosen = list(range(min(len(bag), SHOWN))) if subgraphs is None else list(subgraphs)
    mol = molecule.mol
    numbers = {i: str(i) for i in range(mol.GetNumAtoms())}
    panels = [Panel(molecule, f"policy {bag.policy}: {len(chosen)} of {len(bag)} subgraphs", notes=numbers)]
    member, root = (tuple(0.45 * c for c in colour) if dark else colour for colour in (MEMBER, ROOT))
    for k in chosen:
        data = bag.subgraph(k)
        roots = data.root.view(-1).tolist()
        inside = {(int(i), int(j)) for i, j in data.edge_index.t().tolist()}
        bonds = [b.GetIdx() for b in mol.GetBonds() if (b.GetBeginAtomIdx(), b.GetEndAtomIdx()) in inside]
        members = data.member.nonzero().view(-1).tolist()
        atoms = {i: (root if i in roots else member) for i in [*members, *roots]}
        legend = f"k = {k}" + ("" if not roots else f", root {', '.join(f'{mol.GetAtomWithIdx(i).GetSymbol()}{i}' for i in roots)}")
        left = ", not a member" if set(roots) - set(members) else ""
        panels.append(Panel(molecule, legend + left, atoms, dict.fromkeys(bonds, member), dict.fromkeys(roots, 0.55)))  # type: ignore[arg-type]
    return draw_molecules(panels, 4 if len(panels) <= 16 else 6, dark)


# -- explanations --------------------------------------------------------------------------------------------------------------

COLOURS = "PuOr_r"  # from violet (lowers) to white to orange (raises); safe for colour-blind readers


@dataclass(frozen=True, eq=False)
class Explained:
    """A molecule, the explanation of its prediction, and the warning if it is beyond the domain of the run."""

    name: str
    molecule: Molecule
    explanation: Explanation
    warning: str = ""


def atom_names(molecule: Molecule) -> list[str]:
    """The atoms with their numbers, such as C0, O1."""
    return [f"{atom.GetSymbol()}{atom.GetIdx()}" for atom in molecule.mol.GetAtoms()]


def draw_scores(molecule: Molecule, parts: Attribution) -> Picture:
    """Draw a molecule with its atoms and bonds in the colours of their scores."""
    nodes = parts.nodes.numpy()
    bonds = {b.GetIdx(): parts.bond(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in molecule.mol.GetBonds()}
    largest, widest = max(np.abs(nodes).max(), 1e-12), max((abs(v) for v in bonds.values()), default=0.0) or 1e-12
    panel = Panel(
        molecule,
        "",
        {i: _colour(value / largest) for i, value in enumerate(nodes)},
        {b: _colour(value / widest) for b, value in bonds.items()},
        {i: 0.28 + 0.22 * abs(value) / largest for i, value in enumerate(nodes)},
        {i: str(i) for i in range(len(nodes))},
    )
    return draw_molecules([panel], 1, size=(520, 380))


def _colour(share: float) -> Colour:
    """A colour for a score from -1 to 1, pale enough to keep atom labels readable."""
    red, green, blue, _ = colormaps[COLOURS](0.5 + 0.27 * float(share))
    return float(red), float(green), float(blue)


def draw_pairs(parts: Attribution, names: Sequence[str], look: Theme = LIGHT) -> Picture:
    """Draw the matrix of x[k, i]: the contribution of each node in each subgraph, the sum for each node above, and the effect of each
    subgraph on the right."""
    m, n = parts.pairs.shape
    wide, high = min(9.0, 1.6 + 0.26 * n), min(9.0, 1.2 + 0.26 * m)
    figure = new_figure(wide + 1.9, high + 1.2, look)
    grid = figure.add_gridspec(2, 2, width_ratios=[wide, 1.4], height_ratios=[1.0, high])
    ax = figure.add_subplot(grid[1, 0])
    above, right = figure.add_subplot(grid[0, 0], sharex=ax), figure.add_subplot(grid[1, 1], sharey=ax)
    largest = max(float(parts.pairs.abs().max()), 1e-12) if parts.pairs.numel() else 1.0
    style_axes(ax, look, "", "node i", "subgraph k (its root)")
    ax.grid(False)
    values = np.ma.array(parts.pairs.numpy(), mask=~parts.member.numpy() & (parts.pairs.numpy() == 0))
    ax.pcolormesh(
        np.arange(n + 1) - 0.5, np.arange(m + 1) - 0.5, values, cmap=COLOURS, vmin=-largest, vmax=largest, gid="pairs-matrix"
    )
    roots = [(names[r] if r >= 0 else str(k)) for k, r in enumerate(parts.root.tolist())]
    small = 7 if max(n, m) <= 35 else 4
    ax.set_xticks(range(n), names, rotation=90, fontsize=small)
    ax.set_yticks(range(m), roots, fontsize=small)
    ax.set_ylim(m - 0.5, -0.5)
    style_axes(above, look, f"x[k,i] raises (orange) or lowers (violet) the output by at most {number(largest)}", "", "node")
    above.bar(
        range(n), parts.nodes.numpy(), color=["#E08214" if v >= 0 else "#8073AC" for v in parts.nodes.tolist()], gid="pairs-nodes"
    )
    style_axes(right, look, "", "without k", "")
    right.barh(range(m), parts.subgraphs.numpy(), color=BLUE, gid="pairs-subgraphs")
    for other, axis in ((above, "x"), (right, "y")):
        other.tick_params(axis=axis, labelbottom=False, labelleft=axis != "y")  # type: ignore[arg-type]
        other.tick_params(labelsize=6)
    return finish(figure, "pairs", look)


def write_explanations(file: Path, title: str, explained: Sequence[Explained], errors: dict[str, str]) -> None:
    """Write a page with a section for each molecule, and the reasons for molecules that could not be read."""
    page = Page(title)
    page.text(
        "Scores are integrated gradients over x[k, i], the value of node i in subgraph k, from all values zero to the actual values. The scores "
        "of all pairs sum to the difference of the two outputs. Orange raises the prediction, violet lowers it. The colour of a bond is the score "
        "of the messages along it. The bars to the right of the matrix show by how much the prediction falls when a subgraph is left out, that is, "
        "when all of its values are set to zero. For classes, the scores explain the logit."
    )
    if errors:
        page.table(["input", "reason why it is not explained"], list(errors.items()))
    for number_, each in enumerate(explained):
        parts, names = each.explanation.parts, atom_names(each.molecule)
        page.heading(each.name)
        page.text(
            f"{each.explanation.target}: the {each.explanation.name} is {number(each.explanation.prediction)}. The output is {number(parts.output)}, and "
            f"{number(parts.nothing)} with all values zero. The error of the integral is {parts.error:.1g}."
        )
        if each.warning:
            page.text(f"Warning: {each.warning}.")
        page.picture(f"molecule-{number_}", draw_scores(each.molecule, parts))
        page.picture(f"matrix-{number_}", draw_pairs(parts, names))
        order = parts.nodes.abs().argsort(descending=True).tolist()[:10]
        left = {int(r): float(s) for r, s in zip(parts.root, parts.subgraphs, strict=True)}
        rows = [[names[i], float(parts.nodes[i]), left.get(i)] for i in order]
        page.table(["atom", "score", "effect of leaving out its subgraph"], rows, "the atoms with the largest scores")
        bonds = [(parts.bond(b.GetBeginAtomIdx(), b.GetEndAtomIdx()), b) for b in each.molecule.mol.GetBonds()]
        bonds.sort(key=lambda pair: -abs(pair[0]))
        page.table(
            ["bond", "score"],
            [[f"{names[b.GetBeginAtomIdx()]} - {names[b.GetEndAtomIdx()]}", score] for score, b in bonds[:10]],
            "the bonds with the largest scores",
        )
    page.save(file)


def score_rows(explained: Sequence[Explained]) -> tuple[list[str], list[list[object]]]:
    """The header and the rows of a table of scores, one row per atom."""
    rows: list[list[object]] = []
    for each in explained:
        parts = each.explanation.parts
        left = {int(r): float(s) for r, s in zip(parts.root, parts.subgraphs, strict=True)}
        for i, name in enumerate(atom_names(each.molecule)):
            rows.append(
                [each.name, each.explanation.target, each.explanation.prediction, i, name, float(parts.nodes[i]), left.get(i, "")]
            )
    name = explained[0].explanation.name if explained else "prediction"
    return ["smiles", "target", name, "atom", "symbol", "score", "without_its_subgraph"], rows


# -- molecules given as SMILES -------------------------------------------------------------------------------------------------

Progress = Callable[[Iterable[str], str], Iterable[str]]


def explain_smiles(
    predictor: Predictor, texts: Sequence[str], target: str | None = None, progress: Progress | None = None
) -> tuple[list[Explained], dict[str, str]]:
    """Explain the predictions of a run for molecules. The second result gives the reasons why some could not be read."""
    if not predictor.recipe.data.reads_smiles:
        raise ValueError(
            f"this run was trained on {predictor.recipe.data.name}, not on molecules; use reign.explain.explain(reign.load(RUN), graph) from Python."
        )
    if predictor.recipe.data.has_descriptors:
        raise ValueError("this run uses descriptors of molecules besides their graphs, which cannot be explained atom by atom.")
    found, errors = [], {}
    for text in texts if progress is None else progress(texts, "explain"):
        try:
            molecule = Molecule.read(text, stereo=predictor.recipe.data.stereo_of_graphs)
        except ValueError as error:
            errors[text] = str(error)
            continue
        found.append(Explained(molecule.text, molecule, explain(predictor, molecule.graph(), target)))
    warnings = predictor.predict([each.name for each in found], uncertainty=False)[WARNING] if found else []
    return [replace(each, warning=warning) for each, warning in zip(found, warnings, strict=True)], errors


def smiles_of_file(path: Path, columns: Sequence[str]) -> list[str]:
    """The SMILES of a table. Several columns form one molecule of several components."""
    table, _ = read_table(path)
    need_columns(table.columns, columns, path)
    return [".".join(str(value).strip() for value in row) for row in table[list(columns)].itertuples(index=False, name=None)]
