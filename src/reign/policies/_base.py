"""The base class of selection policies: the anchors of subgraphs, and a rule for which nodes each subgraph keeps."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor
from torch_geometric.data.data import BaseData

from reign._validate import check, kind_of
from reign.bags import STATE_BYTES, Domain, SharedGraph, SubgraphBag
from reign.kernels import ragged
from reign.policies._grammar import name_of
from reign.policies._marks import Mark, check_mark, marks, num_marks
from reign.policies._pairs import Pairs, all_pairs, near_pairs, stored_hops


class Policy(ABC):
    """A selection policy: graph -> bag of subgraphs. A new policy is a dataclass with one method, ``keep``.

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

    By default there is one subgraph per node. A policy with other subgraphs also defines ``anchors``, and a policy that deletes
    edges defines ``cut``. If all subgraphs lie within some hops of their anchors, ``radius`` avoids a search over all pairs when only
    members are stored. ``@POLICIES.register(name)`` gives the policy a name.
    """

    meaning: ClassVar[str] = ""  # a one-line description of each subgraph
    example: ClassVar[str] = ""  # an example name for ``reign.policy``; the registered name if empty
    variants: ClassVar[dict[str, str]] = {}  # other names to list, and their meanings
    in_paper_class: ClassVar[bool] = (
        False  # whether the paper's theorems hold (it is null or in the class Pi), unless it marks distances
    )

    mark: Mark = False
    max_distance: int = 0

    random: ClassVar[bool] = False
    """Whether new subgraphs are drawn at each call in training."""

    @abstractmethod
    def keep(self, pairs: Pairs) -> Bool[Tensor, "pairs"]:
        """Whether node i is in subgraph k, for each of these pairs (k, i)."""

    @property
    def node_based(self) -> bool:
        """Whether there is one subgraph per node, in the order of nodes."""
        return True

    @property
    def num_anchors(self) -> int:
        """The number of nodes that a subgraph is tied to."""
        return 1

    @property
    def num_marks(self) -> int:
        """The number of channels of marks in front of the features."""
        return num_marks(self.mark, self.max_distance, self.num_anchors)

    @property
    def unordered(self) -> bool:
        """Whether the two anchors of a subgraph are unordered, like the ends of an edge."""
        return False

    def draws(self) -> "list[Policy]":
        """The policies whose predictions are averaged: this one, or for sampled bags one for each draw."""
        return [self]

    @property
    def radius(self) -> int | None:
        """The largest hop distance of a member from the nearest anchor; None if there is no bound."""
        return None

    def anchors(self, graph: SharedGraph) -> tuple[Int[Tensor, "subgraphs anchors"], Int[Tensor, "subgraphs"]]:
        """The anchors of each subgraph, and its graph. By default every node is the anchor of one subgraph."""
        return torch.arange(graph.num_nodes, device=graph.batch.device)[:, None], graph.batch

    def num_subgraphs(self, graph: SharedGraph) -> Int[Tensor, "graphs"]:
        """The number of subgraphs of each graph. A policy with very many subgraphs should count them without making their anchors."""
        return torch.bincount(self.anchors(graph)[1], minlength=graph.num_graphs)

    def cut(self, graph: SharedGraph, anchor: Tensor) -> Int[Tensor, "cuts 3"] | None:
        """The undirected edges that are deleted although both ends are members: (subgraph, node, node)."""
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
        state_bytes: int = STATE_BYTES,
        roots: Int[Tensor, "_"] | None = None,
    ) -> SubgraphBag:
        """The bag of a PyG batch, on the device of the batch.

        Args:
            x: node features, shape (nodes, channels).
            edge_index: edges, shape (2, edges).
            edge_attr: edge features, shape (edges, ...).
            batch: the graph of each node, shape (nodes,); one graph if not given.
            batch_size: number of graphs; needed only if the last graphs may have no nodes.
            domain: "all" stores every pair of a graph, as in the paper; "members" stores only pairs inside a subgraph.
            hop_distance: distances stored by ``reign.transforms.AddHopDistance``, which make a search unnecessary.
            state_bytes: bytes that a model needs for each pair, to check whether the bag is too large.
            roots: make only the subgraphs of these nodes; all if not given. The policy must have one subgraph per node.
        """
        check("domain", domain, domain in ("all", "members"), "'all' or 'members'")
        graph = SharedGraph.build(x, edge_index, edge_attr, batch, batch_size)
        table = None if hop_distance is None else stored_hops(graph, hop_distance)
        anchor, sub_batch = self.anchors(graph)
        if roots is not None:
            roots = self._checked_roots(roots, graph)
            anchor, sub_batch = anchor[roots], sub_batch[roots]
        if domain == "members" and self.radius is not None and table is None:
            pairs = near_pairs(graph, anchor, self.radius, str(self), state_bytes)
        else:
            pairs = all_pairs(graph, anchor, sub_batch, table, str(self), self.radius, state_bytes)
        member = self.keep(pairs)
        if not isinstance(member, Tensor) or member.shape != pairs.node.shape or member.dtype != torch.bool:
            raise ValueError(
                f"keep of policy '{self}' returned {kind_of(member)}, expected one Boolean per pair: a tensor of shape "
                f"{tuple(pairs.node.shape)} and dtype torch.bool; hops and is_anchor have one column per anchor, use [:, 0]."
            )
        check_mark(self.mark, self.max_distance)
        mark = marks(self.mark, self.max_distance, pairs, member, self.radius)
        if domain == "members":
            rows = member.nonzero().squeeze(1)
            pairs = Pairs(graph, anchor, pairs.sub[rows], pairs.node[rows])
            mark, member = None if mark is None else mark[rows], member[rows]
        return SubgraphBag(
            graph=graph,
            policy=self,
            domain=domain,
            node_based=self.node_based and roots is None,
            anchor=anchor,
            sub_batch=sub_batch,
            row_ptr=ragged.offsets(torch.bincount(pairs.sub, minlength=anchor.size(0))),
            sub=pairs.sub,
            node=pairs.node,
            member=member,
            mark=mark,
            cut=self.cut(graph, anchor),
        )

    def _checked_roots(self, roots: Any, graph: SharedGraph) -> Int[Tensor, "chosen"]:
        """Distinct roots in ascending order; ``ValueError`` if they are not nodes, or if the subgraphs do not belong to nodes."""
        if not self.node_based:
            raise ValueError(
                f"roots were given, but policy '{self}' does not have one subgraph per node; use 'ego:h', 'ego+:h' or 'nm'."
            )
        good = isinstance(roots, Tensor) and roots.dtype == torch.long and roots.dim() == 1 and roots.device == graph.batch.device
        if good and roots.numel():
            good = bool(((roots >= 0) & (roots < graph.num_nodes)).all())
        if not good:
            raise ValueError(
                f"roots is {kind_of(roots)}, expected a tensor of dtype torch.long on {graph.batch.device} with nodes from 0 to "
                f"{graph.num_nodes - 1}."
            )
        return roots.unique()

    def from_data(self, data: Any, domain: Domain = "all") -> SubgraphBag:
        """The bag of a PyG ``Data`` or ``Batch``, with its stored hop distances if it has any."""
        given: dict[str, Any] = {name: getattr(data, name, None) for name in ("edge_attr", "batch", "hop_distance")}
        if not isinstance(data, BaseData) or not hasattr(data, "edge_index"):
            raise ValueError(f"data is {kind_of(data)}, expected a torch_geometric.data.Data or Batch with an edge_index.")
        size = getattr(data, "num_graphs", None) if given["batch"] is not None else None
        return self(data.x, data.edge_index, batch_size=size, domain=domain, **given)

    def __str__(self) -> str:
        """The name of the policy for ``reign.policy``, or the expression that makes it if it has no name."""
        return name_of(self) or repr(self)
