"""What is made from a bag: one subgraph, the paper's tensors, a plain PyG graph or a picture; or a bag that is renumbered, selected, moved or sliced."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor
from torch_geometric.data import Data

from reign._validate import check_fits, kind_of
from reign.bags._graph import SharedGraph
from reign.kernels import Sum, ragged

if TYPE_CHECKING:
    from reign.bags._bag import SubgraphBag
    from reign.draw import Picture


class DenseBag(NamedTuple):
    """The paper's tensors: ``A[k, i, j]`` counts the edges j -> i of subgraph k, so that A @ x passes messages."""

    A: Shaped[Tensor, "subgraphs nodes nodes"]
    x: Shaped[Tensor, "subgraphs nodes channels"]
    member: Bool[Tensor, "subgraphs nodes"]


def subgraph(bag: "SubgraphBag", k: int, members_only: bool = False) -> Data:
    """Subgraph k as a PyG ``Data`` on all nodes of its graph, in their original order.

    It has ``x`` (marks, then features), ``edge_index``, ``edge_attr``, ``member``, and ``root`` (the root, or the
    nodes of an edge or a tuple). Nodes without a row (outside the subgraph, with ``domain="members"``) have zeros as ``x``.

    Args:
        k: index of the subgraph.
        members_only: leave out nodes that are not members. Nodes are then renumbered, ``node`` holds their original numbers, and
            ``root`` is -1 if it is not a member.
    """
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
    """The tensors (A, x) of the paper and the membership, for a bag of one graph. In a batch, use ``bag[g]``."""
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
    """The disjoint union of all subgraphs as a plain PyG ``Data``, with one node per row. It is slow, but works with any PyG layer.

    ``batch`` is the subgraph of each row, ``node`` its node in the shared graph, ``sub_batch`` the graph of each
    subgraph.
    """
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


def draw(
    bag: "SubgraphBag", subgraphs: Sequence[int] | None = None, *, labels: Sequence[str] | None = None, dark: bool = False
) -> "Picture":
    """A picture of the graph and its subgraphs. Notebooks show it; ``bag.draw().save("bag.svg")`` writes it to a file.

    Args:
        subgraphs: the subgraphs to draw; the first 36 if not given.
        labels: labels of the nodes; their numbers if not given.
        dark: whether to draw on a dark background.
    """
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
    r"""The bag after node i moved to position ``nodes[i]`` and subgraph k to position ``subgraphs[k]``.

    .. math:: (\sigma \cdot x)^{\sigma(k)}_{\sigma(i)} = x^k_i

    Without ``subgraphs``, the subgraphs follow their nodes: one permutation acts on both, which is the symmetry of the paper.
    With ``subgraphs``, both permutations act independently, and only on the tensors (A, x). The root of the k-th subgraph of a
    node-based bag is then still node k, so operations that use roots give other results.
    """
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


def move(bag: "SubgraphBag", device: torch.device | str | int, non_blocking: bool = False) -> "SubgraphBag":
    """The bag on another device. A bag that a PyG ``Data`` holds moves with it."""
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


# -- along roots --------------------------------------------------------------------------------------------------------------
# A subgraph k = (u, v) with two roots is one of n subgraphs (h, v) in which only the first root differs. These are a bag with one subgraph per
# node, a slice: h is the root of (h, v). There is a slice for each v, and every term for bags with one subgraph per node is defined on it.

ALL = "*"  # along all roots


@dataclass(frozen=True, eq=False)
class Slices:
    """All slices of a bag along a root, as one node-based bag in which every slice is a graph of its own.

    Along all roots, each subgraph is in several slices. The subgraphs of sets of distinct nodes do not fill their slices: {u, v} is missing for
    u = v. A missing subgraph has the values zero, and only its root has a row.

    Args:
        bag: the slices.
        pairs: from pairs of the bag to those of its slices; its transpose adds the values of a pair in all of its slices.
        subs: the same for subgraphs.
        edge: the edge of the graph for each edge of the slices.
        complete: whether no subgraph is missing.
    """

    bag: "SubgraphBag"
    pairs: Sum
    subs: Sum
    edge: Int[Tensor, "edges"]
    complete: bool


def check_along(bag: "SubgraphBag", place: str, who: str) -> None:
    """Raise ``ValueError`` unless the subgraphs have this root: the first ("1"), the second ("2"), ..., or any ("*")."""
    roots, policy = bag.anchor.size(1), bag.policy
    if bag.has_some_roots or (policy.random and not bag.node_based):
        raise ValueError(f"{who} needs all subgraphs, but policy '{policy}' with {bag.num_subgraphs} subgraphs leaves some out.")
    if roots == 0 or (place != ALL and int(place) > roots):
        raise ValueError(
            f"{who} needs subgraphs with {'a root' if place == ALL else f'{place} roots'}, but those of policy '{policy}' have {roots}; "
            f"use {'2-nm' if place == ALL else f'{place}-nm'!r} or another policy of tuples."
        )
    if place != ALL and policy.unordered:
        raise ValueError(
            f"{who} needs roots in an order, but those of policy '{policy}' have none; use ':*', the sum over all roots."
        )


def along(bag: "SubgraphBag", place: str, who: str) -> Slices:
    """The slices of a bag along its first ("1"), second ("2"), ... root, or along all of its roots ("*"); ``who`` needs them."""
    check_along(bag, place, who)
    found = bag.plain.cache(("along", place), lambda: _slices(bag.plain, place))
    return found if bag.edge_weight is None else replace(found, bag=found.bag.weighted(bag.edge_weight[found.edge]))


def _slices(bag: "SubgraphBag", place: str) -> Slices:
    graph, roots, subs = bag.graph, bag.anchor.size(1), bag.num_subgraphs
    chosen = range(roots) if place == ALL else [int(place) - 1]
    numbers = torch.arange(subs, device=bag.device)
    sub, root = numbers.repeat(len(chosen)), torch.cat([bag.anchor[:, r] for r in chosen])
    key = []
    for r in chosen:  # the graph of each slice, and its fixed roots; with an order, also which root is not fixed
        name = bag.sub_batch + (0 if bag.policy.unordered else r * bag.num_graphs)
        for other in bag.anchor.t()[[q for q in range(roots) if q != r]]:
            name = name * graph.num_nodes + other
        key.append(name)
    copies, copy = torch.cat(key).unique(return_inverse=True)
    of_copy = torch.zeros_like(copies).index_copy_(0, copy, bag.sub_batch[sub])

    # the graph of each slice
    size, first = graph.sizes[of_copy], graph.ptr[of_copy]
    ptr = ragged.offsets(size)
    nodes = int(ptr[-1])
    of_edge = graph.batch[graph.edge_index[0]]
    count = torch.bincount(of_edge, minlength=graph.num_graphs)
    via, edge = ragged.ranges(ragged.offsets(count)[:-1][of_copy], count[of_copy])
    edge = torch.argsort(of_edge, stable=True)[edge]
    shift = ptr[:-1] - first
    batch = torch.repeat_interleave(size)
    shared = SharedGraph(graph.x.new_empty(nodes, 0), graph.edge_index[:, edge] + shift[via], None, batch, ptr)

    # its subgraphs: that of each node, or one with a single row if it is missing
    at = root + shift[copy]
    complete = at.numel() == nodes
    rows = bag.row_ptr.diff()
    row_ptr = ragged.offsets(torch.ones_like(batch).index_copy_(0, at, rows[sub]))
    total = int(row_ptr[-1])
    check_fits(total, bag.device, f"a term along roots, with policy '{bag.policy}',", "Use smaller batches or graphs.")
    entry, source = ragged.ranges(bag.row_ptr[:-1][sub], rows[sub])
    target = source + (row_ptr[:-1][at] - bag.row_ptr[:-1][sub])[entry]
    owner = torch.repeat_interleave(row_ptr.diff())
    node = owner.index_copy(0, target, bag.node[source] + shift[copy][entry])
    member = torch.ones_like(owner, dtype=torch.bool).index_copy_(0, target, bag.member[source])
    cut = None
    if bag.cut is not None:
        ends = [bag.cut + torch.stack([part[bag.cut[:, 0]] for part in parts], dim=1) for parts in _moves(at, shift[copy], numbers)]
        cut = torch.cat(ends)
    made = replace(
        bag,
        graph=shared,
        domain=bag.domain if complete else "members",
        node_based=True,
        anchor=torch.arange(nodes, device=bag.device)[:, None],
        sub_batch=batch,
        row_ptr=row_ptr,
        sub=owner,
        node=node,
        member=member,
        mark=None,
        cut=cut,
        targets=None,
    )
    if not complete:  # rows of missing subgraphs do not count in means
        made._cache["real", "pair"] = torch.zeros_like(member).index_fill_(0, target, True)
    into_pairs = Sum.build(source, target, bag.num_pairs, total, ("pair", "pair along roots"))
    return Slices(made, into_pairs, Sum.build(sub, at, subs, nodes, ("sub", "sub along roots")), edge, complete)


def _moves(at: Tensor, shift: Tensor, numbers: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For each root: how far the number of each subgraph moves, and those of its nodes."""
    size = max(numbers.numel(), 1)
    return [(a - numbers, s, s) for a, s in zip(at.split(size), shift.split(size), strict=True)]
