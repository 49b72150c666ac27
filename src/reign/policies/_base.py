"""The base class of selection policies: the anchors of subgraphs, and a rule for which nodes each subgraph keeps.

The names of policies follow the grammar ``name[+[single|distance[cap]]][:depth]``, as in "nd", "ego+:3", "nm+single" and "nm+distance8". A policy is a
dataclass, and its fields determine which parts of a name it accepts: ``mark`` allows the "+", ``max_distance`` the cap, and ``num_hops`` or ``number`` the depth.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor
from torch_geometric.data.data import BaseData

from reign._validate import SMALL, STATE_BYTES, check, check_fits, kind_of, warn_of_size
from reign.bags import FAR, Domain, HopTable, SharedGraph, SubgraphBag, hop_table, near_table, stored_table
from reign.kernels import ragged
from reign.registry import Registry

Mark = Literal[False, True, "single", "distance"]
Missing = Literal["zero", "mean"]  # what is read where a node has no subgraph
POLICIES: Registry[type["Policy"]] = Registry(
    "policy",
    spelling=lambda name: name.strip().lower(),
    pattern=r"[a-z][a-z0-9_]*(-[a-z0-9_]+)*|2-",  # "2-" is a prefix of the name of another policy
)


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
        """Whether the node is an anchor of the subgraph: a column for each of its anchors."""
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
    in_paper_class: ClassVar[bool] = False  # whether the paper's theorems hold (it is null or in Pi), unless it marks distances

    mark: Mark = False
    max_distance: int = 0

    missing: Missing | None = None

    random: ClassVar[bool] = False
    """Whether new subgraphs are drawn at each call in training."""

    @property
    def inner(self) -> "Policy":
        """The policy whose subgraphs are drawn, if they are drawn at random; otherwise the policy itself."""
        return self

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
        if self.mark == "distance":
            return (1 if self.unordered else self.num_anchors) * (self.max_distance + 2)
        anchors = 1 if self.unordered else self.num_anchors
        return anchors + (self.mark is True) if self.mark else 0

    @property
    def unordered(self) -> bool:
        """Whether the anchors of a subgraph are unordered, like the ends of an edge."""
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
            pairs = near_pairs(self, graph, anchor, self.radius, state_bytes)
        else:
            pairs = all_pairs(self, graph, anchor, sub_batch, table, state_bytes)
        member = self.keep(pairs)
        if not isinstance(member, Tensor) or member.shape != pairs.node.shape or member.dtype != torch.bool:
            raise ValueError(
                f"keep of policy '{self}' returned {kind_of(member)}, expected one Boolean per pair: a tensor of shape "
                f"{tuple(pairs.node.shape)} and dtype torch.bool; hops and is_anchor have one column per anchor, use [:, 0]."
            )
        check_mark(self.mark, self.max_distance)
        mark = marks(self, pairs, member)
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
        if not self.node_based or self.random:
            raise ValueError(
                f"roots were given, but policy '{self}' does not have one subgraph per node; use 'ego:h', 'ego+:h' or 'nm'."
            )
        valid = isinstance(roots, Tensor) and roots.dtype == torch.long and roots.dim() == 1 and roots.device == graph.batch.device
        if not valid or not bool(((roots >= 0) & (roots < graph.num_nodes)).all()):
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


class KeepsAll(Policy):
    """A policy whose subgraphs keep all nodes."""

    def keep(self, pairs: Pairs) -> Bool[Tensor, "pairs"]:
        """Every subgraph keeps all nodes."""
        return pairs.node >= 0


def _inner(name: str) -> Any:
    """What a wrapper has from the policy that it modifies."""
    return property(lambda self: getattr(self.policy, name), doc="As in ``policy``.")


class Wrapper(Policy):
    """A policy that modifies another one: ``policy`` determines what subgraphs keep, the wrapper determines which subgraphs there are."""

    policy: Policy

    def __post_init__(self) -> None:
        if not isinstance(self.policy, Policy):
            raise ValueError(f"policy is {self.policy!r}, expected a Policy; make one with reign.policy(name).")

    mark, max_distance = _inner("mark"), _inner("max_distance")
    num_anchors, unordered, radius = _inner("num_anchors"), _inner("unordered"), _inner("radius")
    keep, cut = _inner("keep"), _inner("cut")


# -- pairs --------------------------------------------------------------------------------------------------------------------


def all_pairs(
    policy: Policy,
    graph: SharedGraph,
    anchor: Tensor,
    sub_batch: Int[Tensor, "subgraphs"],
    table: HopTable | None,
    state_bytes: int,
) -> Pairs:
    """Every node of a graph in each of its subgraphs."""
    size = graph.sizes[sub_batch]
    way_out = "Use smaller batches, fewer roots (such as 'nm@16'), or ego nets ('ego:2') with domain='members'."
    if policy.radius is not None:
        way_out = "Use domain='members', which stores only the pairs inside a subgraph, or smaller batches."
    check_fits(int(size.sum()), graph.batch.device, f"policy '{policy}' on {graph.num_nodes:,} nodes", way_out, state_bytes)
    if size.numel() and int(size.sum()) >= SMALL:  # a single graph can be that large only if the whole batch is
        own = size * torch.bincount(sub_batch, minlength=graph.num_graphs)[sub_batch]
        warn_of_size(int(size[own.argmax()]), int(own.max()), f"policy '{policy}' with domain='all'", way_out, state_bytes)
    sub, node = ragged.ranges(graph.ptr[sub_batch], size)
    return Pairs(graph, anchor, sub, node, table)


def near_pairs(
    policy: Policy, graph: SharedGraph, anchor: Int[Tensor, "subgraphs anchors"], radius: int, state_bytes: int
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
    valid = isinstance(hop_distance, Tensor) and hop_distance.shape == (expected,) and hop_distance.dtype == torch.int16
    valid = valid and hop_distance.device == graph.batch.device
    if not valid or (hop_distance.device.type == "cpu" and expected and int(hop_distance.min()) < 0):
        raise ValueError(
            f"hop_distance is {kind_of(hop_distance)}, expected shape ({expected},) and dtype torch.int16 on {graph.batch.device}: "
            f"the distance of each ordered pair of nodes of a graph, {FAR} if there is no path; compute it again with "
            "reign.transforms.AddHopDistance."
        )
    return stored_table(graph, hop_distance)


# -- marks --------------------------------------------------------------------------------------------------------------------


def marks(policy: Policy, pairs: Pairs, member: Tensor) -> Bool[Tensor, "pairs marks"] | None:
    r"""The channels in front of the features.

    With ``mark=True`` there is one channel per anchor, which is 1 at that node, and one channel that is 1 at all other nodes: [1, 0] at
    a root and [0, 1] elsewhere. With ``mark="single"`` there is only the channel of each anchor, so that roots have one mark, as in the paper. With ``mark="distance"`` there is for each anchor the one-hot hop distance 0, ..., ``max_distance``
    (greater distances count as ``max_distance``), and a last channel for nodes of another component and nodes that are not members.
    In ego nets of tuples, the last channel is also for nodes that are near another anchor only. Unordered anchors share their channels: each
    says whether the node is so for one of them.
    """
    if policy.mark is False:
        return None
    if policy.mark in (True, "single"):
        is_anchor = pairs.is_anchor.any(dim=1, keepdim=True) if policy.unordered else pairs.is_anchor
        return is_anchor if policy.mark == "single" else torch.cat([is_anchor, ~is_anchor.any(dim=1, keepdim=True)], dim=1)
    hops, largest = pairs.hops(policy.radius), policy.max_distance
    level = hops.clamp(max=largest).masked_fill((hops == FAR) | ~member[:, None], largest + 1)
    distance = level[:, :, None] == torch.arange(largest + 2, device=level.device)
    return distance.any(dim=1) if policy.unordered else distance.flatten(1)


def check_mark(mark: Any, max_distance: Any) -> None:
    """Raise ``ValueError`` unless the mark is valid, with a largest distance if it is "distance"."""
    if not isinstance(mark, bool) and mark not in ("single", "distance"):
        raise ValueError(
            f"mark is {mark!r}, expected False, True (the root), 'single' (the root, in one channel) or 'distance' (one-hot hop distance)."
        )
    if mark == "distance" and (type(max_distance) is not int or not 1 <= max_distance < FAR):
        raise ValueError(
            f"max_distance is {max_distance!r}, expected a whole number from 1 to {FAR - 1}; greater distances share its channel."
        )


# -- names --------------------------------------------------------------------------------------------------------------------


DEPTHS = {"num_hops": "depth", "number": "number"}  # the fields that the ":3" of a name sets
GRAMMAR = re.compile(
    r"((?P<tuple>[1-9])-(?P<set>set-)?)?(?P<name>[a-z][a-z0-9_]*(-[a-z0-9_]+)*)"
    r"(?P<mark>\+((?P<single>single)|(?P<distance>distance(?P<cap>\d+)?))?)?(:(?P<depth>\d+))?"
    r"(@(?P<sample>[\d.]+)(\+(?P<missing>zero|mean))?)?"
)


def parse(text: str) -> re.Match[str] | None:
    """The parts of a policy's name, or None if it does not follow the grammar or is not the name of a policy."""
    part = GRAMMAR.fullmatch(text.strip().lower())
    return None if part is None or part["name"] not in POLICIES else part


def make(text: str, part: re.Match[str]) -> Policy:
    """Make a policy from the parts of its name. ``text`` is the whole name, for messages."""
    kind = POLICIES[part["name"]]
    takes = _fields(kind)
    options: dict[str, Any] = {}
    if part["mark"]:
        if "mark" not in takes:
            raise ValueError(f"policy '{part['name']}' takes no mark, got '{text}'; only 'nm' and 'ego' take marks.")
        options["mark"] = part["single"] or ("distance" if part["distance"] else True)
    if part["cap"]:
        if "max_distance" not in takes:
            raise ValueError(f"policy '{part['name']}' takes no largest distance, got '{text}'; write '+distance'.")
        options["max_distance"] = int(part["cap"])
    depth = next((name for name in DEPTHS if name in takes), None)
    if part["depth"] is not None:
        if depth is None:
            raise ValueError(f"policy '{part['name']}' takes no depth, got '{text}'; write '{text.split(':')[0]}'.")
        options[depth] = int(part["depth"])
    elif depth is not None and _required(takes[depth]):
        raise ValueError(f"policy '{text}' needs a {DEPTHS[depth]}, as in '{text.split('@')[0]}:3'.")
    if missing := [name for name, field in takes.items() if name not in options and _required(field)]:
        raise ValueError(f"policy '{text}' needs {', '.join(missing)}, which cannot be part of a name; use {kind.__name__}(...).")
    return kind(**options)


def name_of(policy: Policy) -> str | None:
    """The name from which ``make`` makes an equal policy, or None if there is none."""
    name, takes = POLICIES.name_of(type(policy)), _fields(type(policy))
    if name is None:
        return None
    if "mark" in takes and policy.mark != takes["mark"].default:
        name += {True: "+", False: ""}.get(policy.mark, f"+{policy.mark}")  # type: ignore[arg-type]
        if policy.mark == "distance" and "max_distance" in takes:
            name += str(policy.max_distance)
    for depth in [depth for depth in DEPTHS if depth in takes]:
        name += f":{getattr(policy, depth)}"
    part = parse(name)
    try:
        return name if part is not None and make(name, part) == policy else None
    except ValueError:
        return None


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _fields(kind: type[Policy]) -> dict[str, Field[Any]]:
    return {field.name: field for field in fields(kind) if field.init} if is_dataclass(kind) else {}
