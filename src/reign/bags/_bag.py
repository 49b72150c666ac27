"""The bag of subgraphs: one shared graph, a membership bit per pair, and the maps between scopes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch_geometric.data import Data

from reign.bags import _views as views
from reign.bags._graph import Bound, Cached, PairEdges, PerRow, SharedGraph, cached, pair_edges
from reign.bags._hops import on_several_paths, resistance, root_hops
from reign.bags._missing import SampledWiring
from reign.bags._wiring import PLAIN, WEIGHT, WeightedWiring, Wiring, weigh
from reign.kernels import Segments, kernels_for, ragged

if TYPE_CHECKING:
    from reign.policies import Missing, Policy


Domain = Literal["all", "members"]


@dataclass(frozen=True, eq=False, repr=False)
class SubgraphBag(Cached):
    r"""A batch of graphs, their subgraphs, and the values :math:`x^k_i` of node i in subgraph k, written ``x[k, i]``.

    Subgraphs are never copied. Subgraph k is an induced part of the graph, so one bit per pair describes it:

    .. math:: A^k_{ij} = A_{ij} \cdot \mathrm{member}^k_i \cdot \mathrm{member}^k_j

    (without the undirected edges listed in ``cut``, for edge deletion). The pairs of a batch are the rows of one tensor, without
    padding. With ``domain="all"``, pair (k, i) of a graph of n nodes is n rows after (k - 1, i) and one row after (k, i - 1). With
    ``domain="members"``, only the pairs inside a subgraph have a row, in the same order.

    Nodes and subgraphs are numbered over the whole batch, as in PyG. Bags are usually made by policies.

    Args:
        graph: the graph that all subgraphs share.
        policy: the policy that selected the subgraphs.
        domain: whether "all" pairs of a graph have rows, or only those of "members".
        node_based: whether there is one subgraph per node, and subgraph k belongs to node k.
        anchor: the nodes that each subgraph is tied to: its root (one column), or its edge or tuple of nodes (a column for each).
        sub_batch: the graph of each subgraph.
        row_ptr: the first row of each subgraph, and the end of the last.
        sub: the subgraph of each row.
        node: the node of each row.
        member: whether the node is in the subgraph.
        mark: channels in front of the features, if the policy marks nodes.
        cut: the undirected edges (subgraph, node, node) that are deleted although both nodes are members.
        targets: the nodes that a model at node level predicts for; all if not given.
    """

    graph: SharedGraph
    policy: "Policy"
    domain: Domain
    node_based: bool
    anchor: Int[Tensor, "subgraphs anchors"]
    sub_batch: Int[Tensor, "subgraphs"]
    row_ptr: Int[Tensor, "subgraphs+1"]
    sub: Int[Tensor, "pairs"]
    node: Int[Tensor, "pairs"]
    member: Bool[Tensor, "pairs"]
    mark: Bool[Tensor, "pairs marks"] | None
    cut: Int[Tensor, "cuts 3"] | None
    targets: Int[Tensor, "targets"] | None = None

    # -- sizes -----------------------------------------------------------------------------------------------------

    @property
    def num_graphs(self) -> int:
        """The number of graphs in the batch."""
        return self.graph.num_graphs

    @property
    def num_nodes(self) -> int:
        """The number of nodes in the batch."""
        return self.graph.num_nodes

    @property
    def num_subgraphs(self) -> int:
        """The number of subgraphs in the batch."""
        return self.sub_batch.numel()

    @property
    def num_pairs(self) -> int:
        """The number of rows: pairs (subgraph, node) that are stored."""
        return self.sub.numel()

    @property
    def device(self) -> torch.device:
        """The device of the bag."""
        return self.sub.device

    def real(self, space: str) -> Bool[Tensor, "rows"] | None:
        """Which of the nodes, subgraphs ("sub"), pairs or graphs are real; None if all are, as in every bag made by a policy.

        Only the bag of a ``Frame`` is padded. Padding is excluded from the statistics of norms.
        """
        return cast("Tensor | None", self._cache.get(("real", space)))

    # -- maps between scopes ---------------------------------------------------------------------------------------

    @cached
    def pair_batch(self) -> Int[Tensor, "pairs"]:
        """The graph of each row."""
        return self.sub_batch[self.sub]

    @property
    def root(self) -> Int[Tensor, "subgraphs"]:
        """The root of each subgraph."""
        if self.anchor.size(1) != 1:
            raise ValueError(
                f"a subgraph of policy '{self.policy}' has {self.anchor.size(1)} anchors, expected one root; "
                "use bag.anchor, terms along the roots such as 'root:1' or 'root:*', or a policy with one root such as 'nm' or 'ego+:3'."
            )
        return self.anchor[:, 0]

    @cached
    def root_row(self) -> Int[Tensor, "subgraphs"]:
        """The row of pair (k, root of k), or -1 if it has none (node deletion with ``domain="members"``)."""
        return self.row_within(torch.arange(self.num_subgraphs, device=self.device), self.root)

    @cached
    def transpose(self) -> Int[Tensor, "pairs"]:
        """The row of pair (i, k) for each row (k, i), or -1 if it has none. Only for node-based policies."""
        self.require_node_based("transpose")
        return self.row_within(self.node, self.sub)

    def require_node_based(self, who: str, term: str = "") -> None:
        """Raise ``ValueError`` unless there is one subgraph per node, in the same order. The message proposes the term along a root."""
        if self.has_some_roots:
            raise ValueError(
                f"{who} needs one subgraph per node, but only {self.num_subgraphs} of {self.num_nodes} nodes were chosen as roots; make the "
                "bag without roots=..."
            )
        if not self.node_based:
            place = None if not term or self.policy.num_anchors < 2 or self.policy.random else "*" if self.policy.unordered else "1"
            along = "" if place is None else f"'{term}:{place}', or "
            sampled = (
                ", or say what to read where a subgraph is missing, as in 'nm@0.5+mean'"
                if self.policy.random and self.missing is None and self.policy.inner.node_based
                else ""
            )
            raise ValueError(
                f"{who} needs one subgraph per node, got {self.num_subgraphs} for {self.num_nodes} nodes: policy "
                f"'{self.policy}' is not node-based; use {along}'nm', 'ego:h' or 'ego+:h'{sampled}."
            )

    def require_roots(self, who: str, term: str = "") -> None:
        """Raise ``ValueError`` unless there is one subgraph per node, or the policy says what to read where one is missing."""
        if self.missing is None:
            self.require_node_based(who, term)

    @property
    def missing(self) -> "Missing | None":
        """What terms read where a node has no subgraph, "zero" or "mean"; None if no subgraph is missing, or nothing may read there."""
        return None if self.node_based else self.policy.missing

    @cached
    def sub_of(self) -> Int[Tensor, "nodes"]:
        """The subgraph of each node, or -1 if it has none."""
        none = torch.full((self.num_nodes,), -1, dtype=torch.long, device=self.device)
        return none.index_copy(0, self.root, torch.arange(self.num_subgraphs, device=self.device))

    @property
    def has_some_roots(self) -> bool:
        """Whether only some nodes were chosen as roots of a policy that has one subgraph per node (see ``Policy.__call__``)."""
        return not self.node_based and self.policy.node_based and not self.policy.random

    def at_roots(self, values: Shaped[Tensor, "subgraphs channels"], who: str) -> Shaped[Tensor, "nodes channels"]:
        """Values of subgraphs as values of their roots. Nodes without a subgraph have zeros, or with ``missing="mean"`` the mean of their graph."""
        if not self.has_some_roots:
            self.require_roots(who)
        if self.missing != "mean":
            return self.to_roots(values)
        wiring = self.wiring
        mean = wiring.scaled(wiring.sub_to_graph(values), "graph") / self.graph.sizes.clamp(min=1)[:, None]
        return self.to_roots(values, mean.index_select(0, self.graph.batch))

    def to_roots(
        self, values: Shaped[Tensor, "subgraphs channels"], others: Shaped[Tensor, "nodes channels"] | None = None
    ) -> Shaped[Tensor, "nodes channels"]:
        """Values of subgraphs at their roots, and at all other nodes zeros or the values that are given."""
        if self.node_based:
            return values
        others = values.new_zeros(self.num_nodes, values.size(1)) if others is None else others
        return others.index_copy(0, self.root, values)

    def row(self, sub: Int[Tensor, "*any"], node: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
        """The row of each pair (subgraph, node), or -1 if it is not stored."""
        same_graph = self.graph.batch[node] == self.sub_batch[sub]
        return torch.where(same_graph, self.row_within(sub, node), -1)

    def row_within(self, sub: Int[Tensor, "*any"], node: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
        """As ``row``, for pairs whose subgraph and node are known to belong to the same graph."""
        if self.domain == "all":
            return self._shift[sub] + node
        position, there = ragged.find(self._key, sub * self.num_nodes + node)
        return torch.where(there, position, -1)

    @cached
    def edge_row(self) -> Int[Tensor, "edges"]:
        """The row of pair (i, j) for each edge j -> i of the graph. Only for node-based policies with ``domain="all"``."""
        source, target = self.graph.edge_index
        return self.row_within(target, source)

    @cached
    def _shift(self) -> Int[Tensor, "subgraphs"]:
        return self.row_ptr[:-1] - self.graph.ptr[self.sub_batch]

    @cached
    def _key(self) -> Int[Tensor, "pairs"]:
        return self.sub * self.num_nodes + self.node

    @cached
    def pair_edges(self) -> PairEdges:
        """Every edge of every subgraph as (source row, target row, edge of the graph), in the order of target rows."""
        return pair_edges(self)

    @property
    def wiring(self) -> Wiring:
        """Which rows are summed into which, for the terms of layers."""
        if self.missing is not None:
            return SampledWiring(self)
        return Wiring(self) if self.edge_weight is None else WeightedWiring(self)

    @property
    def edge_weight(self) -> Float[Tensor, "edges"] | None:
        """The edge weights of a bag made by ``weighted``; None if there are none."""
        return cast("Tensor | None", self._cache.get(WEIGHT))

    @property
    def plain(self) -> "SubgraphBag":
        """The bag without edge weights."""
        return cast("SubgraphBag", self._cache.get(PLAIN, self))

    def hops(self, max_distance: int) -> Int[Tensor, "pairs"]:
        """The hop distance from the root, at most ``max_distance``, and ``max_distance + 1`` for unreachable nodes."""
        return self.cache(("hops", max_distance), lambda: PerRow(root_hops(self, max_distance), "pair")).values

    @property
    def on_several_paths(self) -> Bool[Tensor, "pairs"]:
        """Whether at least two neighbours of the node are one hop closer to the root."""
        return self.cache("several paths", lambda: PerRow(on_several_paths(self), "pair")).values

    @property
    def resistance(self) -> Float[Tensor, "pairs"]:
        """The resistance distance from the root to the node inside the subgraph, where every edge has resistance 1; 0 outside it."""
        return self.cache("resistance", lambda: PerRow(resistance(self), "pair")).values

    @property
    def largest(self) -> int:
        """The number of nodes of the largest graph; in the bag of a ``Frame``, of all graphs that it can hold."""
        return self.cache("largest", lambda: Bound(int(self.graph.sizes.max()) if self.num_graphs else 0)).value

    # -- values ----------------------------------------------------------------------------------------------------

    def lift(self, h: Shaped[Tensor, "nodes channels"], rows: slice = slice(None)) -> Shaped[Tensor, "rows lifted"]:
        """Map values on nodes to values on pairs, with marks in front: ``x[k, i] = [mark[k, i], h[i]]``."""
        if h.dim() != 2 or h.size(0) != self.num_nodes:
            raise ValueError(f"h has shape {tuple(h.shape)}, expected ({self.num_nodes}, channels): a row per node of the bag.")
        whole, to_node = rows == slice(None), self.wiring.to_node if h.requires_grad else None
        if whole and to_node is not None and to_node.ptr is not None and (kernels := kernels_for(h)) is not None:
            lifted: Tensor = kernels.lift(h, self.mark, self.node, Segments(to_node.ptr, to_node.index))
            return lifted
        values = to_node.t(h) if whole and to_node is not None else h[self.node[rows]]  # the gradient is a sum in a fixed order
        return values if self.mark is None else torch.cat([self.mark[rows].to(h.dtype), values], dim=1)

    @property
    def x(self) -> Shaped[Tensor, "pairs channels"]:
        """The values x[k, i] set by the policy: marks, then the features of the node."""
        return self.lift(self.graph.x)

    # -- views -----------------------------------------------------------------------------------------------------

    subgraph = views.subgraph
    draw = views.draw
    to_dense = views.to_dense
    expand = views.expand
    permute = views.permute
    __getitem__ = views.take
    to = views.move
    weighted = weigh

    def __len__(self) -> int:
        """The number of subgraphs."""
        return self.num_subgraphs

    def __iter__(self) -> Iterator[Data]:
        """Iterate over the subgraphs, as returned by ``subgraph``."""
        return (self.subgraph(k) for k in range(len(self)))

    def __repr__(self) -> str:
        sizes = f"graphs={self.num_graphs}, nodes={self.num_nodes}, subgraphs={self.num_subgraphs}, pairs={self.num_pairs}"
        return f"SubgraphBag({sizes}, members={int(self.member.sum())}, policy='{self.policy}', domain='{self.domain}')"
