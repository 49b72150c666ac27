"""A page about a model: its equations, symmetry and cost, the bound on its expressive power, and the pairs of graphs it tells apart."""

import copy
import html
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch_geometric.data import Batch

from reign.data import Progress
from reign.nn import AKConv, Model, SubgraphConv, cost, term
from reign.testing import assert_batch_invariant, assert_equivariant, random_graphs
from reign.theory._families import family, list_families
from reign.theory._linear_layers import SUMS, TABLE
from reign.theory._plan import plan_of_model
from reign.theory._separate import Verdict, find_method, separate

# -- upper bounds on expressive power -----------------------------------------------------------------------------------------

BEYOND = {  # terms that are not in the ReIGN(2) table, but that 3-WL bounds as well
    "needle_msg": "two ReIGN(2) layers: needle, then readout@A",
    "needle_msg@agg": "2-FWL can count the subgraphs in which two nodes are neighbours, and sum over pairs",
    "swap_local": "2-FWL sums x[h,i] over the neighbours h of k",
    "folklore": "2-FWL sums over all j of both values together, and knows which j are neighbours of i",
    "swap_folklore": "2-FWL sums over all j of both values together, and knows which j are neighbours of k",
    "root_msg": "two ReIGN(2) layers: roots get their own channel, then local",
    "local_others": "two ReIGN(2) layers, as for root_msg",
}


def bound_of_terms(names: Sequence[str]) -> list[str]:
    """Which terms are in the ReIGN(2) table, and the bounds of those that are not.

    >>> bound_of_terms(["own", "local", "transpose"])
    ['inside the ReIGN(2) table, so 3-WL bounds them: own, local, transpose']
    >>> bound_of_terms(["needle:1", "needle:2"])
    ['along roots of subgraphs, where (k + 2)-WL is conjectured for k roots: needle:1, needle:2']
    """
    names = list(dict.fromkeys(term(name).name for name in names))
    along = [name for name in names if term(name).place is not None]
    names = [name for name in names if name not in along]
    inside = [f"{name} = {SUMS[name]}" if name in SUMS else name for name in names if name in TABLE]
    lines = [f"inside the ReIGN(2) table, so 3-WL bounds them: {', '.join(inside)}"] if inside else []
    lines += [f"outside the table, but bounded by 3-WL: {name} ({BEYOND[name]})" for name in names if name in BEYOND]
    lines += [f"along roots of subgraphs, where (k + 2)-WL is conjectured for k roots: {', '.join(along)}"] if along else []
    unknown = [name for name in names if name not in TABLE and name not in BEYOND]
    return lines + ([f"outside the table, without a known bound: {', '.join(unknown)}"] if unknown else [])


def terms_of(layer: nn.Module) -> list[str]:
    """The names of all terms of a layer, on and off the diagonal."""
    if isinstance(layer, SubgraphConv):
        return [part.name for on in (False, True) for slot in layer.slots(on) for part in slot.terms]
    return [*terms_of(layer.inner[0]), *layer.parts] if isinstance(layer, AKConv) else []


def bound_of_model(model: Model) -> list[str]:
    """The WL test that bounds a model with its policy."""
    policy = model.policy
    if not type(model).takes_policy:
        return [model.wl_bound]
    if not policy.in_paper_class:
        return [
            f"none known: policy '{policy}' is not in the paper's class, so the 3-WL bound does not apply; (k + 2)-WL is conjectured for "
            "k-node policies"
        ]
    lines = [model.wl_bound]
    if policy.mark == "distance":
        lines.append("2-FWL computes hop distances, so distance marks do not change the bound; no construction here")
    elif model.linear_form:
        lines.append("implement(model, 'ign3') shows it for its linear form (GraphConv, sums, no norm, domain='all')")
    return lines


# -- the page -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Card:
    """The page, as sections of lines. ``str``, ``markdown`` and ``html`` render it."""

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
        """The page in HTML, without references to other files."""
        parts = [f"<h2>{html.escape(n)}</h2><pre>{html.escape(chr(10).join(lines))}</pre>" for n, lines in self.sections.items()]
        style = "body{font-family:sans-serif;max-width:60em;margin:2em auto}pre{background:#f4f4f4;padding:1em;overflow:auto}"
        title = html.escape(self.title)
        return f"<!doctype html><html><head><title>{title}</title><style>{style}</style></head><body><h1>{title}</h1>{''.join(parts)}</body></html>"


def card(model: Model | str, families: Sequence[str] | None = None, progress: Progress = lambda items, _: items) -> Card:
    """Make a page about a model.

    Args:
        model: a model, whose weights do not matter, or a name such as "sun:nm" or "sun:ego+:2/4".
        families: families of pairs to try it on; all families that need no data file if not given.
        progress: function that wraps loops, to show a progress bar.
    """
    if isinstance(model, str):
        model = find_method(model).make(1, "relu")
    return Card(
        repr(model),
        {
            "Update equations": model.describe().splitlines()[1:],
            "Symmetry": _symmetry(model),
            "Cost": _cost(model),
            "Bound": bound_of_model(model),
            **_exact(model, list_families(generated=True) if families is None else families, progress),
        },
    )


def _symmetry(model: Model) -> list[str]:
    if model.node_encoder is not None or any(getattr(module, "edge_encoder", None) is not None for module in model.modules()):
        return ["not checked, because the model has encoders of node or edge features"]
    graphs = random_graphs(5, min_nodes=2, max_nodes=6, num_features=model.in_channels, dtype=torch.float64)
    twin = copy.deepcopy(model).double().eval()
    assert_equivariant(twin, Batch.from_data_list(graphs), level=model.task_level, atol=1e-8, rtol=1e-8)
    assert_batch_invariant(twin, graphs, atol=1e-8, rtol=1e-8)
    kind = "invariant" if model.task_level == "graph" else "equivariant"
    return [
        f"{kind} to permutations of nodes (S_n): checked on {len(graphs)} random graphs in float64, to 1e-8",
        "the same output for a graph alone and in a batch",
    ]


def _cost(model: Model) -> list[str]:
    lines = []
    for t, layer in enumerate(model.layers):
        if isinstance(layer, SubgraphConv):
            passes = ", ".join(f"{number} over {scope}" for scope, number in cost(layer).items() if number)
            lines.append(f"layer {t}: number of passes: {passes}")
        else:
            lines.append(f"layer {t}: {layer!r}")
    return lines


def _exact(model: Model, families: Sequence[str], progress: Progress) -> dict[str, list[str]]:
    """The bound on the model's terms, and the pairs that its colour test and the model itself tell apart."""
    try:
        plan_of_model(model)
    except ValueError as error:
        return {"Separates": [f"not tried: {error}"]}
    terms = bound_of_terms([name for layer in model.layers for name in terms_of(layer)])
    found = ["pairs told apart by the colour test (and the rounds it needs), and by the model's layers over a finite field"]
    for name in progress(families, "families"):
        pairs = family(name)
        colours, layers = separate(pairs, wl=[model]), separate(pairs, [model], act=None)
        of = f"of {len(pairs)} {'pair' if len(pairs) == 1 else 'pairs'}"
        found.append(f"{name}: {_count(colours)} {of}{_rounds(colours)}; with the model's layers {_count(layers)}")
    return {"Terms": terms, "Separates": found} if terms else {"Separates": found}


def _count(verdicts: list[Verdict]) -> int:
    return sum(v.separated for v in verdicts)


def _rounds(verdicts: list[Verdict]) -> str:
    rounds = [v.layer for v in verdicts if v.layer is not None]
    if not rounds:
        return ""
    return f" in {rounds[0]} rounds" if min(rounds) == max(rounds) else f" in {min(rounds)} to {max(rounds)} rounds"
