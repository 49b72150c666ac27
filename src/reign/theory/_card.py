"""A model on one page: what it computes, its symmetry, its cost, the bound on what it can tell apart, and what it does tell apart."""

import copy
import html
from dataclasses import dataclass
from typing import Any

import torch
from torch_geometric.data import Batch

from reign.nn import DS, DSS, GNNAK, IDGNN, IGN2, MPNN, NGNN, PPGN, SSWL, SUN, GNNAKPlus, Model, ReIGN2, SubgraphConv, cost
from reign.policies import EgoNets, NodeDeletion, NodeMarking, Null
from reign.testing import assert_batch_invariant, assert_equivariant, random_graphs
from reign.theory._families import GENERATED, family
from reign.theory._separate import separate


@dataclass(frozen=True)
class Card:
    """The page, as sections of lines; ``str``, ``markdown`` and ``html`` render it."""

    title: str
    sections: dict[str, list[str]]

    def __str__(self) -> str:
        parts = [f"{name}\n" + "\n".join(f"  {line}" for line in lines) for name, lines in self.sections.items()]
        return "\n\n".join([self.title, *parts])

    def markdown(self) -> str:
        """The page in Markdown."""
        parts = [f"## {name}\n\n```\n" + "\n".join(lines) + "\n```" for name, lines in self.sections.items()]
        return "\n\n".join([f"# {self.title}", *parts]) + "\n"

    def html(self) -> str:
        """The page in HTML, complete and without outside references."""
        parts = [f"<h2>{html.escape(n)}</h2><pre>{html.escape(chr(10).join(lines))}</pre>" for n, lines in self.sections.items()]
        style = "body{font-family:sans-serif;max-width:60em;margin:2em auto}pre{background:#f4f4f4;padding:1em;overflow:auto}"
        title = html.escape(self.title)
        return f"<!doctype html><html><head><title>{title}</title><style>{style}</style></head><body><h1>{title}</h1>{''.join(parts)}</body></html>"


def card(model: Model, families: list[str] | None = None) -> Card:
    """One page about a model.

    Args:
        model: any of the catalogue; its weights do not matter, its architecture does.
        families: of pairs on which separation is tried; the generated ones if not given.
    """
    return Card(
        repr(model),
        {
            "Update equations": model.describe().splitlines()[1:],
            "Symmetry": _symmetry(model),
            "Cost": _cost(model),
            "Bound": _bound(model),
            "Separates": _separates(model, GENERATED if families is None else families),
        },
    )


def _symmetry(model: Model) -> list[str]:
    if model.node_encoder is not None or _has_edges(model):
        return ["not checked here: the model wants encoded features"]
    graphs = random_graphs(5, min_nodes=2, max_nodes=6, num_features=model.in_channels, dtype=torch.float64)
    twin = _twin(model)
    assert_equivariant(twin, Batch.from_data_list(graphs), level=model.task_level, atol=1e-8, rtol=1e-8)
    assert_batch_invariant(twin, graphs, atol=1e-8, rtol=1e-8)
    kind = "invariant" if model.task_level == "graph" else "equivariant"
    return [
        f"{kind} to permutations of nodes (S_n): checked on {len(graphs)} random graphs, float64, to 1e-8",
        "a graph alone and in a batch: the same",
    ]


def _cost(model: Model) -> list[str]:
    lines = []
    for t, layer in enumerate(model.layers):
        if isinstance(layer, SubgraphConv):
            passes = ", ".join(f"{number} over {scope}" for scope, number in cost(layer).items() if number)
            lines.append(f"layer {t}: passes {passes}")
        else:
            lines.append(f"layer {t}: {layer!r}")
    return lines


def _bound(model: Model) -> list[str]:
    policy = model.policy
    in_class = isinstance(policy, Null | NodeDeletion | NodeMarking | EgoNets)
    form = "by implement(model, 'ign3') for its linear form (GraphConv, sums, no norm, domain='all')"
    if policy.mark == "distance":
        form = "for which no construction is known here: the paper's lemma on policies does not cover distance marks"
    if isinstance(model, MPNN):
        return ["1-WL: message passing on the graph itself"]
    if isinstance(model, PPGN):
        return ["3-WL: PPGN is as strong as it (Maron et al. 2019)"]
    if isinstance(model, IGN2):
        return ["2-WL: 2-IGNs are as strong as it (Geerts 2020), and 2-WL as 1-WL"]
    if not in_class:
        return [
            f"not known: policy '{policy}' is not in the paper's class, so the 3-WL bound does not apply; (k + 2)-WL is conjectured for k-node policies"
        ]
    if isinstance(model, SUN | ReIGN2):
        return ["3-WL (Corollary: 3-WL upper-bounds ReIGN(2)), " + form]
    if isinstance(model, DS | DSS | IDGNN | NGNN) or (isinstance(model, GNNAK) and not isinstance(model, GNNAKPlus)):
        return ["3-WL (Corollary: 3-WL upper-bounds node-based Subgraph GNNs), " + form]
    if isinstance(model, SSWL):
        return [
            "3-WL: message passing along both axes is a 3-IGN operation, as 2-FWL refines it (Zhang et al. 2023); no construction here"
        ]
    return ["3-WL for terms of the ReIGN(2) table; no construction here for what lies beyond it"]


def _separates(model: Model, families: list[str]) -> list[str]:
    name = _method(model)
    if name is None or _has_edges(model):
        return ["not tried: no name in the catalogue, or edge features"]
    lines = [f"random weights, as: reign separate FAMILY --model {name}"]
    for chosen in families:
        pairs = family(chosen)
        done = separate(pairs, [name])
        lines.append(f"{chosen}: {sum(v.separated for v in done)} of {len(pairs)} pairs")
    return lines


def _method(model: Model) -> str | None:
    kind = type(model).__name__.lower()
    if kind == "subgraphgnn":
        return None
    layers = model.num_layers
    if isinstance(model, GNNAK):
        layers = len(model.layers[0].inner)  # type: ignore[arg-type]
    policy = "" if isinstance(model, MPNN | PPGN | IGN2) else f":{model.policy}"
    return f"{kind}{policy}/{layers}"


def _has_edges(model: Model) -> bool:
    return any(getattr(module, "edge_encoder", None) is not None for module in model.modules()) or bool(
        getattr(model, "edge_channels", 0)
    )


def _twin(model: Model) -> Any:
    return copy.deepcopy(model).double().eval()
