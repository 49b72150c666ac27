"""A check of explanations: deleting the nodes with the highest scores must change a prediction more than deleting random nodes."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch_geometric.data import Data

Predict = Callable[[list[Data]], Float[Tensor, "graphs"]]


def without_nodes(data: Data, nodes: Int[Tensor, "deleted"]) -> Data:
    """A graph without some nodes, and without their edges."""
    keep = torch.ones(int(data.num_nodes or 0), dtype=torch.bool).index_fill_(0, nodes, False)
    new = keep.cumsum(0) - 1
    edges = keep[data.edge_index].all(0)
    return Data(
        x=data.x[keep],
        edge_index=new[data.edge_index[:, edges]],
        edge_attr=None if data.edge_attr is None else data.edge_attr[edges],
    )


def deletion(
    predict: Predict,
    graphs: Sequence[Data],
    scores: Sequence[Float[Tensor, "_"]],
    numbers: Sequence[int] = (1, 2, 3, 4, 5),
    draws: int = 10,
    seed: int = 0,
) -> dict[str, Float[Tensor, "graphs numbers"]]:
    """The change of predictions when nodes are deleted: those with the largest scores, those with the smallest, and random ones.

    Args:
        predict: function that returns the prediction for each of some graphs.
        graphs: the graphs. Graphs that would have fewer than two nodes left are not used.
        scores: a score for each node of each graph; only absolute values matter.
        numbers: numbers of nodes to delete.
        draws: number of random choices, over which the change is averaged.
        seed: seed of these choices.
    """
    rng = torch.Generator().manual_seed(seed)
    chosen = [(g, s) for g, s in zip(graphs, scores, strict=True) if int(g.num_nodes or 0) >= max(numbers) + 2]
    full = predict([g for g, _ in chosen])

    def change(order: Callable[[Tensor], Tensor]) -> Tensor:
        orders = [order(s) for _, s in chosen]
        columns = [predict([without_nodes(g, o[:number]) for (g, _), o in zip(chosen, orders, strict=True)]) for number in numbers]
        return (torch.stack(columns, dim=1) - full[:, None]).abs()

    return {
        "largest": change(lambda s: s.abs().argsort(descending=True)),
        "random": torch.stack([change(lambda s: torch.randperm(s.numel(), generator=rng)) for _ in range(draws)]).mean(0),
        "smallest": change(lambda s: s.abs().argsort()),
    }
