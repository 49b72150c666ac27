"""The pairs (subgraph, node) among which a policy chooses: all pairs of a graph, or only those near an anchor."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reign._validate import kind_of
from reign.bags import FAR, SMALL, STATE_BYTES, HopTable, SharedGraph, check_fits, hop_table, near_table, stored_table, warn_of_size
from reign.kernels import ragged


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs (subgraph, node) among which a policy chooses: row r is node ``node[r]`` in subgraph ``sub[r]``."""

    graph: SharedGraph
    anchor: Int[Tensor, "subgraphs anchors"]
    sub: Int[Tensor, "pairs"]
    node: Int[Tensor, "pairs"]
    table: HopTable | None = None
    _hops: dict[int | None, Tensor] = field(default_factory=dict, repr=False)

    @property
    def is_anchor(self) -> Bool[Tensor, "pairs anchors"]:
        """Whether the node is an anchor of the subgraph: its root (one column), or its first and second anchor (two columns)."""
        return self.anchor[self.sub] == self.node[:, None]

    def hops(self, max_hops: int | None = None) -> Int[Tensor, "pairs anchors"]:
        """The hop distance from each anchor to the node; ``FAR`` if there is no path or the distance is above ``max_hops``."""
        if max_hops not in self._hops:
            self._hops[max_hops] = self._search(max_hops)
        return self._hops[max_hops]

    def _search(self, max_hops: int | None) -> Int[Tensor, "pairs anchors"]:
        if self.table is None and self.anchor.size(1) == 1:  # a search from every root fills exactly these rows, in order
            return hop_table(self.graph, self.anchor[:, 0], max_hops).distance[:, None]
        table = self.table or hop_table(self.graph, self.anchor.unique(), max_hops)
        distance = table.at(self.anchor[self.sub], self.node[:, None].expand(-1, self.anchor.size(1)))
        return distance if max_hops is None else distance.masked_fill(distance > max_hops, FAR)


def all_pairs(
    graph: SharedGraph,
    anchor: Int[Tensor, "subgraphs anchors"],
    sub_batch: Int[Tensor, "subgraphs"],
    table: HopTable | None,
    policy: str,
    radius: int | None,
    state_bytes: int = STATE_BYTES,
) -> Pairs:
    """Every node of a graph in each of its subgraphs. The name and the radius of the policy are used in error messages."""
    size = graph.sizes[sub_batch]
    way_out = "Use smaller batches, fewer roots (such as 'nm@16'), or ego nets ('ego:2') with domain='members'."
    if radius is not None:
        way_out = "Use domain='members', which stores only the pairs inside a subgraph, or smaller batches."
    check_fits(int(size.sum()), graph.batch.device, f"policy '{policy}' on {graph.num_nodes:,} nodes", way_out, state_bytes)
    if size.numel() and int(size.sum()) >= SMALL:  # a single graph can be that large only if the whole batch is
        own = size * torch.bincount(sub_batch, minlength=graph.num_graphs)[sub_batch]
        warn_of_size(int(size[own.argmax()]), int(own.max()), f"policy '{policy}' with domain='all'", way_out, state_bytes)
    sub, node = ragged.ranges(graph.ptr[sub_batch], size)
    return Pairs(graph, anchor, sub, node, table)


def near_pairs(
    graph: SharedGraph, anchor: Int[Tensor, "subgraphs anchors"], radius: int, policy: str, state_bytes: int = STATE_BYTES
) -> Pairs:
    """Only the pairs within some hops of an anchor, found without a search over all pairs."""
    n = graph.num_nodes
    near = near_table(graph, anchor.unique(), radius)
    assert near.key is not None
    ptr = ragged.offsets(torch.bincount(near.key // max(n, 1), minlength=n))
    count = ptr[anchor + 1] - ptr[anchor]
    way_out = "Use a smaller depth, fewer roots (such as 'ego:2@16') or smaller batches."
    check_fits(int(count.sum()), anchor.device, f"policy '{policy}' on {n:,} nodes", way_out, state_bytes)
    slot, entry = ragged.ranges(ptr[anchor].flatten(), count.flatten())
    key = slot // anchor.size(1) * n + near.key[entry] % max(n, 1)
    if anchor.size(1) > 1:  # the union of several balls
        key = key.unique()
    return Pairs(graph, anchor, key // max(n, 1), key % max(n, 1), near)


def stored_hops(graph: SharedGraph, hop_distance: Tensor) -> HopTable:
    """The table of stored hop distances, after a check that it belongs to this graph."""
    expected = int((graph.sizes**2).sum())
    good = isinstance(hop_distance, Tensor) and hop_distance.shape == (expected,) and hop_distance.dtype == torch.int16
    good = good and hop_distance.device == graph.batch.device
    if good and hop_distance.device.type == "cpu" and expected:
        good = int(hop_distance.min()) >= 0
    if not good:
        raise ValueError(
            f"hop_distance is {kind_of(hop_distance)}, expected shape ({expected},) and dtype torch.int16 on {graph.batch.device}: "
            f"the distance of each ordered pair of nodes of a graph, {FAR} if there is no path; compute it again with "
            "reign.transforms.AddHopDistance."
        )
    return stored_table(graph, hop_distance)
