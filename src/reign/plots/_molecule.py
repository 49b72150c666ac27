"""Draw molecules with RDKit: with highlighted parts, with scores on atoms and bonds, and with the subgraphs of a bag."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reign.bags import SubgraphBag
from reign.data.molecules import Molecule
from reign.draw import Picture, theme

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
