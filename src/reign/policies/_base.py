"""What a selection policy is: subgraphs tied to something, and a rule for which nodes each of them keeps."""

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
    built without looking at all pairs when only members are stored. ``@POLICIES.register(name)`` gives it a name.
    """

    meaning: ClassVar[str] = ""  # what each subgraph is, in one line
    example: ClassVar[str] = ""  # a name that ``reign.policy`` understands; the registered name if empty
    variants: ClassVar[dict[str, str]] = {}  # further names worth showing, and their meanings
    in_paper_class: ClassVar[bool] = False  # the paper's theorems hold: it is null or in the class Pi, unless it marks distances

    mark: Mark = False
    max_distance: int = 0

    random: ClassVar[bool] = False
    """Whether the subgraphs are drawn anew at each call in training."""

    @abstractmethod
    def keep(self, pairs: Pairs) -> Bool[Tensor, "pairs"]:
        """Which of these pairs (k, i) have node i in subgraph k."""

    @property
    def node_based(self) -> bool:
        """Is there one subgraph per node, in the order of nodes?"""
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
        """Are the two anchors of a subgraph without order, as the ends of an edge are?"""
        return False

    def draws(self) -> "list[Policy]":
        """The policies whose bags give the predictions to average: this one, or for sampled bags one for each draw."""
        return [self]

    @property
    def radius(self) -> int | None:
        """All members of a subgraph lie within this many hops of an anchor; None if there is no such bound."""
        return None

    def anchors(self, graph: SharedGraph) -> tuple[Int[Tensor, "subgraphs anchors"], Int[Tensor, "subgraphs"]]:
        """What each subgraph is tied to, and its graph: here every node in turn."""
        return torch.arange(graph.num_nodes, device=graph.batch.device)[:, None], graph.batch

    def num_subgraphs(self, graph: SharedGraph) -> Int[Tensor, "graphs"]:
        """The number of subgraphs of each graph; a policy with very many of them counts without making their anchors."""
        return torch.bincount(self.anchors(graph)[1], minlength=graph.num_graphs)

    def cut(self, graph: SharedGraph, anchor: Tensor) -> Int[Tensor, "cuts 3"] | None:
        """The undirected edges that a subgraph loses although it keeps both ends: (subgraph, node, node)."""
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
    ) -> SubgraphBag:
        """The bag of a PyG batch, on the device of the batch.

        Args:
            x: node features, shape (nodes, channels).
            edge_index: edges, shape (2, edges).
            edge_attr: edge features, shape (edges, ...).
            batch: the graph of each node, shape (nodes,); one graph if not given.
            batch_size: number of graphs, needed only if the last graphs may be without nodes.
            domain: "all" stores every pair of a graph, as in the paper; "members" only pairs inside a subgraph.
            hop_distance: what ``reign.transforms.AddHopDistance`` stored, so that nothing has to be searched.
            state_bytes: memory that a model takes for each pair, to judge whether the bag is too large.
        """
        check("domain", domain, domain in ("all", "members"), "'all' or 'members'")
        graph = SharedGraph.build(x, edge_index, edge_attr, batch, batch_size)
        table = None if hop_distance is None else stored_hops(graph, hop_distance)
        anchor, sub_batch = self.anchors(graph)
        if domain == "members" and self.radius is not None and table is None:
            pairs = near_pairs(graph, anchor, self.radius, str(self), state_bytes)
        else:
            pairs = all_pairs(graph, anchor, sub_batch, table, str(self), self.radius, state_bytes)
        member = self.keep(pairs)
        if not isinstance(member, Tensor) or member.shape != pairs.node.shape or member.dtype != torch.bool:
            raise ValueError(
                f"keep of policy '{self}' gave {kind_of(member)}, expected one truth value per pair: a tensor of shape "
                f"{tuple(pairs.node.shape)} and dtype torch.bool; hops and is_anchor have a column per anchor, take [:, 0]."
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
        given: dict[str, Any] = {name: getattr(data, name, None) for name in ("edge_attr", "batch", "hop_distance")}
        if not isinstance(data, BaseData) or not hasattr(data, "edge_index"):
            raise ValueError(f"data is {kind_of(data)}, expected a torch_geometric.data.Data or Batch with an edge_index.")
        size = getattr(data, "num_graphs", None) if given["batch"] is not None else None
        return self(data.x, data.edge_index, batch_size=size, domain=domain, **given)

    def __str__(self) -> str:
        """The name that ``reign.policy`` understands, or the expression that makes the policy where it has no name."""
        return name_of(self) or repr(self)
