"""A picture of a bag: the graph and its subgraphs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from reign.bags._views import subgraph

if TYPE_CHECKING:
    from reign.bags._bag import SubgraphBag
    from reign.draw import Picture

SHOWN = 36  # default number of subgraphs to draw


def draw(bag: "SubgraphBag", subgraphs: Sequence[int] | None, labels: Sequence[str] | None, dark: bool) -> "Picture":
    """See ``SubgraphBag.draw``."""
    if bag.num_graphs != 1:
        raise ValueError(f"draw needs a bag of one graph, got {bag.num_graphs} graphs; use bag[g].draw().")
    if labels is not None and len(labels) != bag.num_nodes:
        raise ValueError(f"got {len(labels)} labels, expected one for each of the {bag.num_nodes} nodes.")
    from reign.draw import Subgraph, draw_bag

    chosen = list(range(min(len(bag), SHOWN))) if subgraphs is None else list(subgraphs)
    panels = []
    for k in chosen:
        data = subgraph(bag, k)
        roots = data.root.view(-1).tolist()
        cut = [] if bag.cut is None else [(i, j) for h, i, j in bag.cut.tolist() if h == k]
        panels.append(
            Subgraph(
                _title(bag, k, roots),
                data.member.nonzero().view(-1).tolist(),
                roots,
                _pairs(data.edge_index),
                [*cut, *((j, i) for i, j in cut)],
            )
        )
    sizes = f"{bag.num_nodes} nodes, {len(bag)} subgraphs" + (f", {len(chosen)} shown" if len(chosen) < len(bag) else "")
    return draw_bag(bag.num_nodes, _pairs(bag.graph.edge_index), panels, f"policy {bag.policy}", sizes, labels, dark)


def _title(bag: "SubgraphBag", k: int, roots: list[int]) -> str:
    return f"k = {k}" if bag.node_based or not roots else f"k = {k}: {', '.join(map(str, roots))}"


def _pairs(edge_index: Tensor) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in edge_index.t().tolist()]
