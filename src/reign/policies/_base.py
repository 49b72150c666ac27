"""What a selection policy is: subgraphs tied to something, and a rule for which nodes each of them keeps."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor
from torch_geometric.data.data import BaseData

from reign._validate import check, kind_of
from reign.bags import FAR, Domain, HopTable, SharedGraph, SubgraphBag, check_fits, hop_table, near_table, stored_table
from reign.kernels import ragged

Mark = Literal[False, True, "distance"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs (subgraph, node) a policy decides on: row r is node ``node[r]`` in subgraph ``sub[r]``."""

    graph: SharedGraph
    anchor: Int[Tensor, "subgraphs anchors"]
    sub: Int[Tensor, "pairs"]
    node: Int[Tensor, "pairs"]
    table: HopTable | None = None
    _hops: dict[int | None, Tensor] = field(default_factory=dict, repr=False)

    @property
    def is_anchor(self) -> Bool[Tensor, "pairs anchors"]:
        """Is the node the root of the subgraph (one column), the first or second node it is tied to (two)?"""
        return self.anchor[self.sub] == self.node[:, None]

    def hops(self, max_hops: int | None = None) -> Int[Tensor, "pairs anchors"]:
        """Hop distance from each anchor to the node in the graph, ``FAR`` if none, or above ``max_hops``."""
        if max_hops not in self._hops:
            self._hops[max_hops] = self._search(max_hops)
        return self._hops[max_hops]

    def _search(self, max_hops: int | None) -> Int[Tensor, "pairs anchors"]:
        if self.table is None and self.anchor.size(1) == 1:  # a search from every root fills just these rows, in order
            return hop_table(self.graph, self.anchor[:, 0], max_hops).distance[:, None]
        table = self.table or hop_table(self.graph, self.anchor.unique(), max_hops)
        distance = table.at(self.anchor[self.sub], self.node[:, None].expand(-1, self.anchor.size(1)))
        return distance if max_hops is None else distance.masked_fill(distance > max_hops, FAR)


class Policy(ABC):
    """A selection policy: graph -> bag of subgraphs. A new one is a dataclass with one method, ``keep``.

    >>> from dataclasses import dataclass
    >>> from reign.policies import Policy
    >>> @dataclass(frozen=True)
    ... class NeighbourDeletion(Policy):
    ...     "Every subgraph loses the neighbours of its root."
    ...     def keep(self, pairs):
    ...         return pairs.hops(max_hops=1)[:, 0] != 1
    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> NeighbourDeletion()(torch.ones(3, 1), path).to_dense().member.int().tolist()
    [[1, 0, 1], [0, 1, 0], [1, 0, 1]]

    A policy that is not tied to every single node also says what its subgraphs are tied to (``anchors``); one that deletes
    edges says which (``cut``); one whose subgraphs lie within some hops of their anchors says so (``radius``), and is then
    built without looking at all pairs when only members are stored.
    """

    meaning: ClassVar[str] = ""  # what each subgraph is, in one line
    example: ClassVar[str] = ""  # a name that ``reign.policy`` understands
    variants: ClassVar[dict[str, str]] = {}  # further names worth showing, and their meanings
    in_paper_class: ClassVar[bool] = False  # the paper's theorems hold: it is null or in the class Pi, unless it marks distances

    mark: Mark = False
    max_distance: int = 0

    @abstractmethod
    def keep(self, pairs: Pairs) -> Bool[Tensor, "pairs"]:
        """Which of these pairs (k, i) have node i in subgraph k."""

    @property
    def node_based(self) -> bool:
        """Is there one subgraph per node, in the order of nodes?"""
        return True

    @property
    def num_anchors(self) -> int:
        """How many nodes a subgraph is tied to."""
        return 1

    @property
    def num_marks(self) -> int:
        """How many channels of marks come in front of the features."""
        if self.mark is False:
            return 0
        return self.num_anchors + 1 if self.mark is True else self.num_anchors * (self.max_distance + 2)

    @property
    def unordered(self) -> bool:
        """Are the two anchors of a subgraph without order, as the ends of an edge are?"""
        return False

    @property
    def num_draws(self) -> int:
        """How many calls a prediction is the mean of; more than one only for sampled bags."""
        return 1

    @property
    def radius(self) -> int | None:
        """All members of a subgraph lie within this many hops of an anchor; None if there is no such bound."""
        return None

    def anchors(self, graph: SharedGraph) -> tuple[Int[Tensor, "subgraphs anchors"], Int[Tensor, "subgraphs"]]:
        """What each subgraph is tied to, and its graph: here every node in turn."""
        return torch.arange(graph.num_nodes, device=graph.batch.device)[:, None], graph.batch

    def cut(self, graph: SharedGraph, anchor: Tensor) -> Int[Tensor, "cuts 3"] | None:
        """Undirected edges that a subgraph loses although it keeps both ends: (subgraph, node, node)."""
        return None

    def train(self, mode: bool = True) -> "Policy":
        """Switch to training or evaluation; only sampled bags differ between the two."""
        return self

    def eval(self) -> "Policy":
        """Switch to evaluation."""
        return self.train(False)

    def __call__(
        self,
        x: Shaped[Tensor, "..."],
        edge_index: Shaped[Tensor, "..."],
        edge_attr: Shaped[Tensor, "..."] | None = None,
        batch: Shaped[Tensor, "..."] | None = None,
        *,
        batch_size: int | None = None,
        domain: Domain = "all",
        hop_distance: Int[Tensor, "rows"] | None = None,
    ) -> SubgraphBag:
        """The bag of a PyG batch, on the device it lies on.

        Args:
            x: node features, shape (nodes, channels).
            edge_index: edges, shape (2, edges).
            edge_attr: edge features, shape (edges, ...).
            batch: the graph of each node, shape (nodes,); one graph if not given.
            batch_size: number of graphs, if the last of them may be without nodes.
            domain: "all" stores every pair of a graph, as in the paper; "members" only pairs inside a subgraph.
            hop_distance: what ``reign.transforms.AddHopDistance`` stored, so that nothing has to be searched.
        """
        check("domain", domain, domain in ("all", "members"), "'all' or 'members'")
        graph = SharedGraph.build(x, edge_index, edge_attr, batch, batch_size)
        table = None if hop_distance is None else _stored(graph, hop_distance)
        anchor, sub_batch = self.anchors(graph)
        if domain == "members" and self.radius is not None and table is None:
            pairs = _near_pairs(graph, anchor, self.radius, self)
        else:
            pairs = _all_pairs(graph, anchor, sub_batch, table, self)
        member = self.keep(pairs)
        if not isinstance(member, Tensor) or member.shape != pairs.node.shape or member.dtype != torch.bool:
            raise ValueError(
                f"keep of policy '{self}' gave {kind_of(member)}, expected one truth value per pair: a tensor of shape "
                f"{tuple(pairs.node.shape)} and dtype torch.bool; hops and is_anchor have a column per anchor, take [:, 0]."
            )
        check_mark(self.mark, self.max_distance)
        mark = self._marks(pairs, member)
        if domain == "members":
            rows = member.nonzero().squeeze(1)
            pairs = Pairs(graph, anchor, pairs.sub[rows], pairs.node[rows])
            mark, member = None if mark is None else mark[rows], member[rows]
        return SubgraphBag(
            graph=graph,
            policy=self,
            domain=domain,
            node_based=self.node_based,
            anchor=anchor,
            sub_batch=sub_batch,
            row_ptr=ragged.offsets(torch.bincount(pairs.sub, minlength=anchor.size(0))),
            sub=pairs.sub,
            node=pairs.node,
            member=member,
            mark=mark,
            cut=self.cut(graph, anchor),
        )

    def from_data(self, data: Any, domain: Domain = "all") -> SubgraphBag:
        """The bag of a PyG ``Data`` or ``Batch``, with its stored hop distances if it has any."""
        given = {name: getattr(data, name, None) for name in ("edge_attr", "batch", "hop_distance")}
        if not isinstance(data, BaseData) or not hasattr(data, "edge_index"):
            raise ValueError(f"data is {kind_of(data)}, expected a torch_geometric.data.Data or Batch with an edge_index.")
        size = getattr(data, "num_graphs", None) if given["batch"] is not None else None
        return self(data.x, data.edge_index, batch_size=size, domain=domain, **given)

    def _marks(self, pairs: Pairs, member: Tensor) -> Bool[Tensor, "pairs marks"] | None:
        r"""Channels in front of the features.

        ``mark=True``: one channel per anchor, on at that node, and one that is on at all other nodes: [1, 0] at a root and
        [0, 1] elsewhere. ``mark="distance"``: per anchor the one-hot hop distance 0, ..., ``max_distance`` (greater ones
        count as ``max_distance``), and a last channel for nodes out of reach: in another component, or no members.
        """
        if self.mark is False:
            return None
        if self.mark is True:
            here = pairs.is_anchor
            return torch.cat([here, ~here.any(dim=1, keepdim=True)], dim=1)
        hops = pairs.hops(self.radius)
        out = (hops == FAR) | ~member[:, None]
        level = hops.clamp(max=self.max_distance).masked_fill(out, self.max_distance + 1)
        return (level[:, :, None] == torch.arange(self.max_distance + 2, device=level.device)).flatten(1)

    def __str__(self) -> str:
        """The name that ``reign.policy`` understands, or the expression that makes the policy where it has none."""
        return repr(self)


class Wrapper(Policy):
    """A policy made of another one: ``policy`` says what its subgraphs keep, the wrapper which of them there are."""

    policy: Policy

    @property
    def mark(self) -> Mark:  # type: ignore[override]
        """As in ``policy``."""
        return self.policy.mark

    @property
    def max_distance(self) -> int:  # type: ignore[override]
        """As in ``policy``."""
        return self.policy.max_distance

    @property
    def num_anchors(self) -> int:
        """As in ``policy``."""
        return self.policy.num_anchors

    @property
    def unordered(self) -> bool:
        """As in ``policy``."""
        return self.policy.unordered

    @property
    def radius(self) -> int | None:
        """As in ``policy``."""
        return self.policy.radius

    def keep(self, pairs: Pairs) -> Bool[Tensor, "pairs"]:
        """As in ``policy``."""
        return self.policy.keep(pairs)

    def cut(self, graph: SharedGraph, anchor: Tensor) -> Int[Tensor, "cuts 3"] | None:
        """As in ``policy``."""
        return self.policy.cut(graph, anchor)


def check_mark(mark: Any, max_distance: Any) -> None:
    """Raise ``ValueError`` unless a mark is one there is, with a cap if it is a distance."""
    if not isinstance(mark, bool) and mark != "distance":
        raise ValueError(f"mark is {mark!r}, expected False, True (the root) or 'distance' (one-hot hop distance).")
    if mark == "distance" and (type(max_distance) is not int or not 1 <= max_distance < FAR):
        raise ValueError(f"max_distance is {max_distance!r}, expected 1 to {FAR - 1}: greater distances share its channel.")


def _stored(graph: SharedGraph, hop_distance: Tensor) -> HopTable:
    expected = int((graph.sizes**2).sum())
    good = isinstance(hop_distance, Tensor) and hop_distance.shape == (expected,) and hop_distance.dtype == torch.int16
    good = good and hop_distance.device == graph.batch.device
    if good and hop_distance.device.type == "cpu" and expected:
        good = int(hop_distance.min()) >= 0
    if not good:
        raise ValueError(
            f"hop_distance is {kind_of(hop_distance)}, expected shape ({expected},) and dtype torch.int16 on {graph.batch.device}: "
            f"the distance of each ordered pair of nodes of a graph, {FAR} where there is none; store it anew with "
            "reign.transforms.AddHopDistance."
        )
    return stored_table(graph, hop_distance)


def _all_pairs(graph: SharedGraph, anchor: Tensor, sub_batch: Tensor, table: HopTable | None, policy: Policy) -> Pairs:
    size = graph.sizes[sub_batch]
    way_out = "Use smaller batches, fewer roots (such as 'nm@16'), or ego nets ('ego:2') with domain='members'."
    if policy.radius is not None:
        way_out = "Use domain='members', which stores only the pairs inside a subgraph, or smaller batches."
    check_fits(int(size.sum()), graph.batch.device, f"policy '{policy}' on {graph.num_nodes:,} nodes", way_out)
    sub, node = ragged.ranges(graph.ptr[sub_batch], size)
    return Pairs(graph, anchor, sub, node, table)


def _near_pairs(graph: SharedGraph, anchor: Tensor, radius: int, policy: Policy) -> Pairs:
    """Only the pairs within some hops of an anchor, found without looking at the others."""
    n = graph.num_nodes
    near = near_table(graph, anchor.unique(), radius)
    assert near.key is not None
    ptr = ragged.offsets(torch.bincount(near.key // max(n, 1), minlength=n))
    count = ptr[anchor + 1] - ptr[anchor]
    way_out = "Use a smaller depth, fewer roots (such as 'ego:2@16') or smaller batches."
    check_fits(int(count.sum()), anchor.device, f"policy '{policy}' on {n:,} nodes", way_out)
    slot, entry = ragged.ranges(ptr[anchor].flatten(), count.flatten())
    key = slot // anchor.size(1) * n + near.key[entry] % max(n, 1)
    if anchor.size(1) > 1:  # the union of several balls
        key = key.unique()
    return Pairs(graph, anchor, key // max(n, 1), key % max(n, 1), near)
