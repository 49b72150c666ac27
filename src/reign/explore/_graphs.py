"""Read a graph from a text of the page. A text cannot refer to a file or a data set, so that a page cannot make reign read from disk."""

import re
from typing import Any

import networkx as nx

from reign.data import from_networkx
from reign.plots import NAMED, Named, read_graph

Graph = Named
MOST_NODES = 60  # largest number of nodes of a graph whose bag is shown
MOST_NODES_TO_COMPARE = 24  # largest number of nodes of a graph for tests and models
LONGEST = 4_000  # largest number of characters of a text
PARTS = re.compile(r"\d{1,3}(-\d{1,3})?(,\d{1,3}(-\d{1,3})?)*")


def read_drawn(text: Any, most: int = MOST_NODES) -> Graph:
    """Read a graph from a text: edges and single nodes ("0-1,1-2,3"), a name with a size ("cycle:6"), or SMILES.

    Args:
        text: the text.
        most: the largest number of nodes.

    >>> graph = read_drawn("0-1,1-2,3")
    >>> graph.data.num_nodes, graph.data.num_edges
    (4, 4)
    >>> read_drawn("complete:100")
    Traceback (most recent call last):
        ...
    ValueError: the graph has 100 nodes, expected at most 60.
    """
    if not isinstance(text, str) or not text.strip():
        raise ValueError("no graph was given; expected SMILES, edges such as 0-1,1-2, or a name such as cycle:6.")
    if len(text) > LONGEST:
        raise ValueError(f"the text of the graph has {len(text):,} characters, expected at most {LONGEST:,}.")
    text = text.strip()
    if PARTS.fullmatch(text.replace(" ", "")):
        graph = Named("drawn", from_networkx(_from_parts(text.replace(" ", ""), most)))
    elif re.fullmatch(r"[a-z]+(:\d{1,4})?", text) and text.partition(":")[0] in NAMED:
        graph = read_graph(text)
    else:
        graph = _from_smiles(text)
    if graph.data.num_nodes > most:
        raise ValueError(f"the graph has {graph.data.num_nodes} nodes, expected at most {most}.")
    return graph


def _from_parts(text: str, most: int) -> nx.Graph:
    parts = [tuple(map(int, part.split("-"))) for part in text.split(",")]
    largest = max(map(max, parts))
    if largest >= most:
        raise ValueError(f"the largest node in the edges is {largest}, expected at most {most - 1}; nodes are numbered from 0.")
    if loop := next((part for part in parts if len(part) == 2 and part[0] == part[1]), None):
        raise ValueError(f"{loop[0]}-{loop[1]} is a loop, expected edges between two nodes.")
    graph = nx.empty_graph(largest + 1)
    graph.add_edges_from(part for part in parts if len(part) == 2)
    return graph


def _from_smiles(text: str) -> Graph:
    from reign.data.molecules import Molecule

    try:
        molecule = Molecule.read(text)
    except ValueError as error:
        raise ValueError(f"{error}; expected SMILES, edges such as 0-1,1-2, or a name such as cycle:6.") from None
    return Named(text, molecule.graph(), molecule)
