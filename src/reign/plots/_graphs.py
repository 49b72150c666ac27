"""Read a graph given on the command line (SMILES, edges, a name with a size, a graph of a data set, or a graph6 file), and draw its bag."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import networkx as nx
import torch
from torch_geometric.data import Data

from reign.data import Progress, from_networkx, list_datasets, load_problem
from reign.draw import Picture
from reign.policies import policy

if TYPE_CHECKING:
    from reign.data.molecules import Molecule


NAMED: dict[str, Callable[..., nx.Graph]] = {
    "path": nx.path_graph,
    "cycle": nx.cycle_graph,
    "star": lambda n: nx.star_graph(n - 1),
    "complete": nx.complete_graph,
    "wheel": nx.wheel_graph,
    "ladder": nx.ladder_graph,
    "house": lambda: nx.house_graph(),
    "petersen": lambda: nx.petersen_graph(),
}
LARGEST = 500  # largest number of nodes of a graph given by name or by edges


@dataclass(frozen=True, eq=False)
class Named:
    """A graph, and the molecule if it was given as SMILES."""

    name: str
    data: Data
    molecule: "Molecule | None" = None


def read_graph(text: str, index: int = 0, progress: Progress | None = None) -> Named:
    """Read a graph from a text.

    Args:
        text: edges such as "0-1,1-2", a name such as "cycle:6" or "petersen", a data set such as "zinc", a file of graph6 lines, or SMILES.
        index: index of the graph in a data set or file.
        progress: function that wraps long loops while a data set is made, to show their progress.

    >>> read_graph("0-1,1-2").data.num_nodes, read_graph("cycle:6").data.num_edges
    (3, 12)
    """
    kind, _, size = text.partition(":")
    if re.fullmatch(r"\d{1,6}-\d{1,6}(,\d{1,6}-\d{1,6})*", text):
        return Named(text if len(text) < 40 else "edges", _from_edges(text))
    if kind in NAMED and (size.isdecimal() or not size):
        return Named(text, _by_name(text, kind, size))
    if text in list_datasets():
        return _of_dataset(text, index, progress)
    if Path(text).suffix == ".g6" or Path(text).is_file():
        return _of_file(text, index)
    return _of_smiles(text)


def _from_edges(text: str) -> Data:
    pairs = [tuple(map(int, edge.split("-"))) for edge in text.split(",")]
    nodes = max(map(max, pairs)) + 1
    if nodes > LARGEST:
        raise ValueError(
            f"the largest node in the edges is {nodes - 1}, expected at most {LARGEST - 1}; nodes are numbered from 0."
        )
    graph = nx.Graph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(pairs)
    return from_networkx(graph)


def _by_name(text: str, kind: str, size: str) -> Data:
    sized = kind not in ("house", "petersen")
    if sized != bool(size) or (size and not 1 <= int(size) <= LARGEST):
        raise ValueError(f"the graph is '{text}', expected {f'{kind}:N with N from 1 to {LARGEST}' if sized else kind}.")
    return from_networkx(NAMED[kind](*([int(size)] if size else [])))


def _of_dataset(name: str, index: int, progress: Progress | None) -> Named:
    graphs = load_problem(name, progress).graphs
    if not 0 <= index < len(graphs):
        raise ValueError(f"--index is {index}, expected 0 to {len(graphs) - 1}: {name} has {len(graphs):,} graphs.")
    batch = graphs.batch(torch.tensor([index]))
    return Named(f"{name}, graph {index}", Data(x=batch.x, edge_index=batch.edge_index, edge_attr=batch.edge_attr))


def _of_file(text: str, index: int) -> Named:
    if not Path(text).is_file():
        raise ValueError(f"the file {text} does not exist.")
    lines = [line for line in Path(text).read_bytes().splitlines() if line.strip()]
    if not 0 <= index < len(lines):
        raise ValueError(f"--index is {index}, expected 0 to {len(lines) - 1}: {text} has {len(lines):,} graphs.")
    data = _graph6(text, lines[index].split()[0], index)
    return Named(f"{Path(text).name}, graph {index}", data)


def _graph6(file: str, word: bytes, index: int) -> Data:
    """One line of a graph6 file."""
    try:
        return from_networkx(nx.from_graph6_bytes(word.removeprefix(b">>graph6<<")))
    except Exception as error:
        raise ValueError(f"{file}, graph {index}: {word[:40]!r} is not a graph in graph6 format ({error}).") from None


def _of_smiles(text: str) -> Named:
    from reign.data.molecules import Molecule

    try:
        molecule = Molecule.read(text)
    except ValueError as error:
        names = ", ".join(f"{name}:N" if name not in ("house", "petersen") else name for name in NAMED)
        raise ValueError(
            f"{error}; expected SMILES, edges such as 0-1,1-2, a data set (reign data list), a file of graph6 lines, or {names}."
        ) from None
    return Named(text, molecule.graph(), molecule)


def draw_bag_of(graph: Named, policy_name: str, subgraphs: Sequence[int] | None = None, dark: bool = False) -> Picture:
    """Draw a graph and its subgraphs side by side.

    Args:
        graph: the graph, as returned by ``read_graph``.
        policy_name: name of the policy that selects the subgraphs.
        subgraphs: the subgraphs to draw; the first 36 if not given.
        dark: whether to draw on a dark background.
    """
    bag = policy(policy_name).from_data(graph.data)
    if graph.molecule is None:
        return bag.draw(subgraphs, dark=dark)
    from reign.plots.molecules import draw_molecule_bag

    return draw_molecule_bag(graph.molecule, bag, subgraphs, dark)
