"""Make a bag from another bag: renumber nodes and subgraphs, select one graph of a batch, or move it to another device."""

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Int
from torch import Tensor

from reign._validate import kind_of
from reign.bags._graph import SharedGraph
from reign.kernels import ragged

if TYPE_CHECKING:
    from reign.bags._bag import SubgraphBag


def permute(bag: "SubgraphBag", nodes: Int[Tensor, "nodes"], subgraphs: Int[Tensor, "subgraphs"] | None = None) -> "SubgraphBag":
    """See ``SubgraphBag.permute``."""
    _check_permutation("nodes", nodes, bag.graph.batch)
    anchor = nodes[bag.anchor]
    if bag.policy.unordered:
        anchor = anchor.sort(dim=1).values
    if subgraphs is not None:
        _check_permutation("subgraphs", subgraphs, bag.sub_batch)
    elif bag.node_based:
        subgraphs = nodes
    else:
        subgraphs = torch.empty_like(bag.sub_batch)
        subgraphs[_order(bag.sub_batch, anchor)] = torch.arange(bag.num_subgraphs, device=bag.device)

    n = bag.num_nodes
    key, rows = (subgraphs[bag.sub] * n + nodes[bag.node]).sort()
    sub = subgraphs[bag.sub[rows]]
    return replace(
        bag,
        graph=replace(bag.graph, x=_move(bag.graph.x, nodes), edge_index=nodes[bag.graph.edge_index]),
        anchor=bag.anchor if bag.node_based else _move(anchor, subgraphs),
        row_ptr=ragged.offsets(torch.bincount(sub, minlength=bag.num_subgraphs)),
        sub=sub,
        node=key - sub * n,
        member=bag.member[rows],
        mark=None if bag.mark is None else bag.mark[rows],
        cut=None if bag.cut is None else torch.cat([subgraphs[bag.cut[:, :1]], nodes[bag.cut[:, 1:]]], dim=1),
        targets=None if bag.targets is None else nodes[bag.targets],
    )


def take(bag: "SubgraphBag", g: int) -> "SubgraphBag":
    """The bag of graph g alone."""
    if not 0 <= g < bag.num_graphs:
        raise IndexError(f"the graph index is {g}, expected 0 to {bag.num_graphs - 1}.")
    graph = bag.graph
    first, end = (int(v) for v in graph.ptr[g : g + 2])
    subs = (bag.sub_batch == g).nonzero().squeeze(1)
    first_sub = int(subs[0]) if subs.numel() else 0
    rows = (bag.pair_batch == g).nonzero().squeeze(1)
    edges = ((graph.edge_index[1] >= first) & (graph.edge_index[1] < end)).nonzero().squeeze(1)
    cut = None
    if bag.cut is not None:
        cut = bag.cut[bag.sub_batch[bag.cut[:, 0]] == g] - bag.cut.new_tensor([first_sub, first, first])
    return replace(
        bag,
        graph=SharedGraph(
            graph.x[first:end],
            graph.edge_index[:, edges] - first,
            None if graph.edge_attr is None else graph.edge_attr[edges],
            torch.zeros_like(graph.batch[first:end]),
            graph.ptr[g : g + 2] - first,
        ),
        anchor=bag.anchor[subs] - first,
        sub_batch=torch.zeros_like(subs),
        row_ptr=ragged.offsets(bag.row_ptr.diff()[subs]),
        sub=bag.sub[rows] - first_sub,
        node=bag.node[rows] - first,
        member=bag.member[rows],
        mark=None if bag.mark is None else bag.mark[rows],
        cut=cut,
        targets=None if bag.targets is None else bag.targets[graph.batch[bag.targets] == g] - first,
    )


def move(bag: "SubgraphBag", device: Any, non_blocking: bool = False) -> "SubgraphBag":
    """See ``SubgraphBag.to``."""
    if not isinstance(device, torch.device | str | int):
        raise ValueError(
            f"a bag can be moved only to a device, got {device!r}; for another precision, make the bag from features of that dtype."
        )

    def tensors(part: Any) -> dict[str, Any]:
        values = {field.name: getattr(part, field.name) for field in fields(part) if field.init}
        return {name: value.to(device, non_blocking=non_blocking) for name, value in values.items() if isinstance(value, Tensor)}

    return replace(bag, graph=replace(bag.graph, **tensors(bag.graph)), **tensors(bag))


def _move(values: Tensor, position: Tensor) -> Tensor:
    """Row r of ``values`` at ``position[r]``."""
    return torch.empty_like(values).index_copy_(0, position, values)


def _order(sub_batch: Tensor, anchor: Tensor) -> Tensor:
    """The order of subgraphs by graph, then by anchor."""
    order = torch.arange(sub_batch.numel(), device=sub_batch.device)
    for key in [*anchor.unbind(1)[::-1], sub_batch]:
        order = order[torch.argsort(key[order], stable=True)]
    return order


def _check_permutation(name: str, perm: Tensor, batch: Tensor) -> None:
    size = batch.numel()
    good = isinstance(perm, Tensor) and perm.dtype == torch.long and perm.shape == batch.shape
    if not good or not torch.equal(perm.sort().values, torch.arange(size, device=perm.device)):
        raise ValueError(
            f"{name} is {kind_of(perm)}, not a permutation of the {size} {name} of the bag: expected each of 0 to {size - 1} once; "
            "reign.testing.random_permutation makes one."
        )
    if not torch.equal(batch[perm], batch):
        raise ValueError(f"{name} moves some of the {name} to another graph of the batch; permute within each graph.")
