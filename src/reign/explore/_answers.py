"""Answers of the library to the requests of the page: plain values, and pictures as SVG."""

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
import torch
from torch_geometric.data import Data

from reign.bags import SharedGraph
from reign.data import from_networkx
from reign.nn import find_model, list_models
from reign.plots import NAMED, Named, draw_bag_of, read_graph
from reign.policies import Policy, list_policies, policy
from reign.theory import Pair, parse_method, separate

if TYPE_CHECKING:
    from reign.train import Predictor


# -- graphs; a text cannot refer to a file or a data set, so that a page cannot make reign read from disk ----------------------

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


# -- answers -------------------------------------------------------------------------------------------------------------------

Values = dict[str, Any]  # a request or an answer, which are JSON
WL = (1, 3)
MOST_NODES_FOR_4_WL = 12
FIRST = ("CC(=O)Oc1ccccc1C(=O)O", "petersen")  # the graph that the page opens with: a molecule, or without RDKit another one
MOST_DRAWN, MOST_DRAWN_EDGES = 36, 20_000  # in one picture: subgraphs, and all of their edges in both directions
MOST_INNER_EDGES = 500_000  # largest number of edges of all subgraphs together, in both directions


class Answers:
    """Answers to the requests of the page, by name: ``start``, ``bag``, ``compare``, ``predict``.

    Args:
        run: folder of a run that was trained on molecules, for ``predict``; None for no run.
    """

    def __init__(self, run: str | Path | None = None) -> None:
        self.run = None if run is None else Path(run)
        self.predictor: Predictor | None = None
        if run is not None:
            from reign.train import load

            self.predictor = load(run)
            if not self.predictor.recipe.data.reads_smiles:
                raise ValueError(
                    f"{run} was trained on {self.predictor.recipe.data.name}, not on molecules; give a run of molecules, or use reign explore "
                    "without a run."
                )
        self.known: dict[str, Callable[[Values], Values]] = {
            "start": self.start, "bag": self.bag, "compare": self.compare, "predict": self.predict,
        }  # fmt: skip

    def start(self, _: Values) -> Values:
        """The choices that the page offers."""
        targets = [] if self.predictor is None else [*(self.predictor.classes or self.predictor.targets)]
        return {
            "graph": FIRST[find_spec("rdkit") is None],
            "policies": [name for name in list_policies() if name != "whole"],
            "models": models(),
            "most_nodes": MOST_NODES,
            "most_nodes_to_compare": MOST_NODES_TO_COMPARE,
            "run": None if self.run is None else self.run.name,
            "targets": targets,
        }

    def bag(self, asked: Values) -> Values:
        """A bag: its sizes, and a picture of the graph next to one subgraph, or next to all of them if the index is -1."""
        graph = read_drawn(asked.get("graph"))
        name = _text(asked, "policy")
        made = policy(name)
        _check_size(graph.data, made)
        bag = made.from_data(graph.data)
        k = _whole(asked, "subgraph", 0)
        if len(bag) and not -1 <= k < len(bag):
            raise ValueError(f"the subgraph index is {k}, expected 0 to {len(bag) - 1}, or -1 for all.")
        found = bag.subgraph(k) if len(bag) and k >= 0 else None
        most = min(len(bag), MOST_DRAWN, max(1, MOST_DRAWN_EDGES // max(1, graph.data.num_edges)))
        drawn = list(range(most)) if found is None else [k]
        return {
            "name": graph.name, "nodes": bag.num_nodes, "edges": graph.data.num_edges // 2, "subgraphs": len(bag),
            "pairs": bag.num_pairs, "members": int(bag.member.sum()), "policy": str(made), "subgraph": k,
            "root": [] if found is None else found.root.view(-1).tolist(),
            "inside": [] if found is None else found.member.nonzero().view(-1).tolist(),
            "inner_edges": 0 if found is None else found.edge_index.size(1) // 2,
            "drawn": len(drawn), "picture": draw_bag_of(graph, name, drawn).svg,
        }  # fmt: skip

    def compare(self, asked: Values) -> Values:
        """Whether each WL test and each model tells two graphs apart."""
        one, other = (read_drawn(asked.get(side), MOST_NODES_TO_COMPARE) for side in ("one", "other"))
        pair = Pair(f"{one.name} / {other.name}", plain(one), plain(other))
        name = _text(asked, "policy")
        policy(name)  # raises an error for an unknown name
        largest = max(pair.one.num_nodes, pair.other.num_nodes)
        tests = [*WL, *([4] if largest <= MOST_NODES_FOR_4_WL else [])]
        rows = [_row(f"{k}-WL", lambda k=k: separate([pair], wl=[k], act=None)) for k in tests]  # type: ignore[misc]
        for method in models(name):
            rows.append(_row(method, lambda method=method: separate([pair], [method], act=None)))  # type: ignore[misc]
        return {"one": one.name, "other": other.name, "rows": rows}

    def predict(self, asked: Values) -> Values:
        """The prediction of the run for a molecule, and the atoms that matter for it."""
        if self.predictor is None:
            raise ValueError("the explorer was started without a run; start it with one, as in: reign explore RUN.")
        from reign.plots.molecules import draw_pairs, draw_scores, explain_smiles, score_rows

        text = _text(asked, "smiles")
        graph = read_drawn(text)
        if graph.molecule is None:
            raise ValueError(f"'{graph.name}' is not a molecule; expected SMILES.")
        target = asked.get("target") or None
        explained, errors = explain_smiles(self.predictor, [text], target)
        if not explained:
            raise ValueError(errors.get(text, "the molecule cannot be read."))
        table = self.predictor.predict([text])
        parts = explained[0].explanation.parts
        head, rows = score_rows(explained)
        scores = [dict(zip(head, row, strict=True)) for row in rows]
        return {
            "target": explained[0].explanation.target,
            "prediction": explained[0].explanation.prediction,
            "name": explained[0].explanation.name,
            "row": {column: _plain_value(table[column].iloc[0]) for column in table.columns},
            "error": parts.error,
            "atoms": [[row["symbol"], row["score"], row["without_its_subgraph"]] for row in scores],
            "molecule": draw_scores(explained[0].molecule, parts).svg,
            "matrix": draw_pairs(parts, [str(row["symbol"]) for row in scores]).svg,
        }


def models(policy_name: str | None = None) -> list[str]:
    """The models that are compared: all except those as published, with a policy if they take one."""
    names = [name for name in list_models() if name != "subgraphgnn" and not name.endswith("published")]
    if policy_name is None:
        return names
    found = [f"{name}:{policy_name}" if find_model(name).takes_policy else name for name in names]
    assert all(parse_method(method) for method in found)
    return found


def plain(graph: Graph) -> Data:
    """The graph for the theory: features are the types of atoms, or 1 at every node."""
    x = torch.ones(graph.data.num_nodes, 1) if graph.molecule is None else graph.data.x[:, :1].float()
    return Data(x=x, edge_index=graph.data.edge_index)


def _check_size(data: Data, made: Policy) -> None:
    """Raise ``ValueError`` for a bag that would take long: with subgraphs for pairs of nodes, or for the edges of a dense graph."""
    subgraphs = int(made.num_subgraphs(SharedGraph.build(data.x, data.edge_index)))
    if subgraphs * data.num_edges > MOST_INNER_EDGES:
        raise ValueError(
            f"the {subgraphs:,} subgraphs of policy {made} have up to {subgraphs * data.num_edges:,} edges, expected at most "
            f"{MOST_INNER_EDGES:,}; use a smaller graph."
        )


def _row(method: str, run: Callable[[], Any]) -> Values:
    """The verdict of a method, or the reason why there is none."""
    try:
        verdict = run()[0]
    except ValueError as error:
        return {"method": method, "separated": None, "layer": None, "text": str(error)}
    return {"method": verdict.method, "separated": verdict.separated, "layer": verdict.layer, "text": str(verdict)}


def _text(asked: Values, name: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > 4_000:
        raise ValueError(f"{name} is missing or is not a short text.")
    return value.strip()


def _whole(asked: Values, name: str, default: int) -> int:
    value = asked.get(name, default)
    if type(value) is not int:
        raise ValueError(f"{name} is {str(value)[:40]!r}, expected a whole number.")
    return value


def _plain_value(value: Any) -> Any:
    """A value of a table in a form that JSON supports: a number, a text, or None."""
    if isinstance(value, str):
        return value
    number = float(value)
    return number if number == number else None
