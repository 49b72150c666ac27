"""Views of a bag: one subgraph, the paper's tensors, or a plain PyG graph."""

from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor
from torch_geometric.data import Data

if TYPE_CHECKING:
    from reign.bags._bag import SubgraphBag


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
    whole = Data(
        x=values.new_zeros(end - first, values.size(1)).index_copy_(0, node, values),
        edge_index=torch.stack([bag.node[source[mine]], bag.node[target[mine]]]) - first,
        edge_attr=None if bag.graph.edge_attr is None else bag.graph.edge_attr[edge[mine]],
        member=bag.member.new_zeros(end - first).index_copy_(0, node, bag.member[rows]),
        root=root.squeeze(0) if root.numel() == 1 else root,
    )
    return _of_members(whole) if members_only else whole


def _of_members(data: Data) -> Data:
    """A subgraph without the nodes that are not members."""
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
