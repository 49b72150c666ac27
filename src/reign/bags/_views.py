"""What is made from a bag: one subgraph, the paper's tensors, a plain PyG graph or a picture; or a bag that is renumbered, selected or moved."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor
from torch_geometric.data import Data

from reign._validate import kind_of
from reign.bags._graph import SharedGraph
from reign.kernels import ragged

if TYPE_CHECKING:
    from reign.bags._bag import SubgraphBag
    from reign.draw import Picture


class DenseBag(NamedTuple):
    """The paper's tensors: ``A[k, i, j]`` counts the edges j -> i of subgraph k, so that A @ x passes messages."""

    A: Shaped[Tensor, "subgraphs nodes nodes"]
    x: Shaped[Tensor, "subgraphs nodes channels"]
    member: Bool[Tensor, "subgraphs nodes"]


def subgraph(bag: "SubgraphBag", k: int, members_only: bool = False) -> Data:
    """See ``SubgraphBag.subgraph``."""
    if not 0 <= k < bag.num_subgraphs:
        raise ValueError(f"the subgraph index is {k}, expected 0 to {bag.num_subgraphs - 1}.")
    g = int(bag.sub_batch[k])
    first, end = (int(v) for v in bag.graph.ptr[g : g + 2])
    bounds = bag.row_ptr[k : k + 2]
    rows = slice(*bounds.tolist())
    node = bag.node[rows] - first
    values = bag.lift(bag.graph.x, rows)
    source, target, edge = bag.pair_edges
    mine = slice(*torch.searchsorted(target, bounds).tolist())
    root = bag.anchor[k] - first
    data = Data(
        x=values.new_zeros(end - first, values.size(1)).index_copy_(0, node, values),
        edge_index=torch.stack([bag.node[source[mine]], bag.node[target[mine]]]) - first,
        edge_attr=None if bag.graph.edge_attr is None else bag.graph.edge_attr[edge[mine]],
        member=bag.member.new_zeros(end - first).index_copy_(0, node, bag.member[rows]),
        root=root.squeeze(0) if root.numel() == 1 else root,
    )
    if not members_only:
        return data
    new = torch.where(data.member, data.member.cumsum(0) - 1, -1)
    return Data(
        x=data.x[data.member],
        edge_index=new[data.edge_index],
        edge_attr=data.edge_attr,
        node=data.member.nonzero().squeeze(1),
        root=new[data.root],
    )


def to_dense(bag: "SubgraphBag") -> DenseBag:
    """See ``SubgraphBag.to_dense``."""
    if bag.num_graphs != 1:
        raise ValueError(f"to_dense needs a bag of one graph, got {bag.num_graphs} graphs; use bag[g].to_dense().")
    shape = (bag.num_subgraphs, bag.num_nodes)
    x = bag.x
    source, target, edge = bag.pair_edges
    dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
    A = torch.zeros(*shape, bag.num_nodes, dtype=dtype, device=bag.device)
    edges = (bag.sub[target], bag.node[target], bag.node[source])
    return DenseBag(
        A.index_put_(edges, A.new_ones(edge.numel()), accumulate=True),
        x.new_zeros(*shape, x.size(1)).index_put_((bag.sub, bag.node), x),
        bag.member.new_zeros(shape).index_put_((bag.sub, bag.node), bag.member),
    )


def expand(bag: "SubgraphBag") -> Data:
    """See ``SubgraphBag.expand``."""
    source, target, edge = bag.pair_edges
    return Data(
        x=bag.x,
        edge_index=torch.stack([source, target]),
        edge_attr=None if bag.graph.edge_attr is None else bag.graph.edge_attr[edge],
        batch=bag.sub,
        node=bag.node,
        member=bag.member,
        sub_batch=bag.sub_batch,
    )


# -- pictures -----------------------------------------------------------------------------------------------------------------

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
        roots, members = data.root.view(-1).tolist(), data.member.nonzero().view(-1).tolist()
        title = f"k = {k}" if bag.node_based or not roots else f"k = {k}: {', '.join(map(str, roots))}"
        cut = [] if bag.cut is None else [(i, j) for h, i, j in bag.cut.tolist() if h == k]
        panels.append(Subgraph(title, members, roots, _pairs(data.edge_index), [*cut, *((j, i) for i, j in cut)]))
    sizes = f"{bag.num_nodes} nodes, {len(bag)} subgraphs" + (f", {len(chosen)} shown" if len(chosen) < len(bag) else "")
    return draw_bag(bag.num_nodes, _pairs(bag.graph.edge_index), panels, f"policy {bag.policy}", sizes, labels, dark)


def _pairs(edge_index: Tensor) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in edge_index.t().tolist()]


# -- other bags ---------------------------------------------------------------------------------------------------------------


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
    valid = isinstance(perm, Tensor) and perm.dtype == torch.long and perm.shape == batch.shape
    if not valid or not torch.equal(perm.sort().values, torch.arange(size, device=perm.device)):
        raise ValueError(
            f"{name} is {kind_of(perm)}, not a permutation of the {size} {name} of the bag: expected each of 0 to {size - 1} once; "
            "reign.testing.random_permutation makes one."
        )
    if not torch.equal(batch[perm], batch):
        raise ValueError(f"{name} moves some of the {name} to another graph of the batch; permute within each graph.")
