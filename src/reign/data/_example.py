"""A small table of molecules and a few pairs of graphs, made here, for a first try without files of one's own."""

import random
from itertools import product
from pathlib import Path

import networkx as nx

from reign.disk import write_bytes, write_csv

NUM_MOLECULES = 300
CORES = """c1({})ccc({})cc1 c1({})cc({})ccc1 c1({})cnc({})cc1 c1({})ccc({})s1 c1({})ccc2cc({})ccc2c1 C1({})CCC({})CC1 C1({})CCN({})C1
    C({})CC({})C C({})COC({})C C1({})CC1({})"""
GROUPS = "[H] C CC C(C)C CCCC O OC CO N CN(C)C F Cl C#N C=O C(=O)C C(=O)O C(=O)OC C(=O)N C(F)(F)F c3ccccc3"
OTHERS = [
    ("aspirin", "CC(=O)Oc1ccccc1C(=O)O"),
    ("caffeine", "Cn1cnc2c1c(=O)n(C)c(=O)n2C"),
    ("paracetamol", "CC(=O)Nc1ccc(O)cc1"),
    ("ibuprofen", "CC(C)Cc1ccc(cc1)C(C)C(=O)O"),
    ("nicotine", "CN1CCCC1c1cccnc1"),
    ("vanillin", "COc1cc(C=O)ccc1O"),
    ("menthol", "CC(C)C1CCC(C)CC1O"),
    ("table salt", "[Na+].[Cl-]"),
    ("not a molecule", "c1ccccc1X"),
]


def molecules() -> list[tuple[str, float]]:
    """300 SMILES, cores with two groups each, drawn with a fixed seed; and their logP as RDKit estimates it from the kinds of atoms."""
    from reign.smiles import Molecule, descriptor

    texts = (core.format(*two) for core in CORES.split() for two in product(GROUPS.split(), repeat=2))
    unique = list(dict.fromkeys(Molecule.read(text).canonical() for text in texts))
    chosen = random.Random(0).sample(unique, NUM_MOLECULES)
    return [(smiles, round(descriptor(Molecule.read(smiles), "MolLogP"), 2)) for smiles in chosen]


def pairs() -> list[tuple[nx.Graph, nx.Graph]]:
    """Pairs of graphs that 1-WL does not tell apart: a hexagon and two triangles, decalin and bicyclopentyl, a prism and K(3, 3), and the rook's graph
    and Shrikhande's, which 3-WL does not tell apart either.
    """
    decalin, bicyclopentyl = nx.cycle_graph(10), nx.disjoint_union(nx.cycle_graph(5), nx.cycle_graph(5))
    decalin.add_edge(0, 5)
    bicyclopentyl.add_edge(0, 5)
    places = [(i, j) for i in range(4) for j in range(4)]
    shrikhande = nx.Graph([((i, j), ((i + a) % 4, (j + b) % 4)) for i, j in places for a, b in ((0, 1), (1, 0), (1, 1))])
    return [
        (nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))),
        (decalin, bicyclopentyl),
        (nx.circular_ladder_graph(3), nx.complete_bipartite_graph(3, 3)),
        (nx.line_graph(nx.complete_bipartite_graph(4, 4)), shrikhande),
    ]


def write_example(folder: Path) -> list[Path]:
    """Write ``molecules.csv`` (SMILES and logP), ``others.csv`` (names and SMILES to predict) and ``graphs.g6`` (pairs of graphs) to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / name for name in ("molecules.csv", "others.csv", "graphs.g6")]
    write_csv(files[0], ["smiles", "logP"], molecules())
    write_csv(files[1], ["name", "smiles"], OTHERS)
    lines = (b" ".join(nx.to_graph6_bytes(graph, header=False).strip() for graph in pair) for pair in pairs())
    write_bytes(files[2], b"".join(line + b"\n" for line in lines))
    return files
