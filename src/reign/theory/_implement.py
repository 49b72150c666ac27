"""The paper's "implements" theorems as functions: one architecture, with constructed weights, computes the same as another.

``implement(model, "reign2")``, ``implement(model, "sun")``, ``implement(model, "sun:null")`` and ``implement(model, "ign3")`` return a model of the target
kind whose outputs equal those of the given model. Where the construction printed in the paper does not satisfy the formulas, a corrected one is used
(docs/theory.md lists the corrections).

The last one is a 3-IGN program, from the graph to the prediction: policy, layers, pooling and head. After the layers, sums over the nodes of subgraphs
take the cube to vectors of nodes, the "3- to 1-equivariant layer" of the proof. Set networks, and divisions for means, are steps on these vectors.
Another sum takes them to a vector of the graph, and the head is an MLP of it.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.data import Data

import reign.policies as policies
from reign.nn import AKConv, DeepSets, Head, MeanPooling, Model, OuterMPNN, Pooling, ReIGN2, RootPooling, SubgraphConv
from reign.theory import _ign3_layers as ign3
from reign.theory._ign import GraphByGraph, graph_tensor
from reign.theory._ign3_program import Program, Step, Update, gate, keep, place, route
from reign.theory._linear_layers import activation, reign2_layer, to_null, to_reign2, to_sun, weights_of
from reign.theory._wl import check_simple


class IGN3Model(GraphByGraph):
    """A model as a 3-IGN program: policy, layers, pooling and head are steps, from the graph as a tensor of order 2 to the prediction.

    It is exact for graphs with at most as many nodes as the largest of the given graphs, and with encoded features that are at most as large.

    Attributes:
        to_cube: the steps from the graph to the values of roots ("aaa") and other nodes ("abb") after all layers.
        from_cube: the steps from these values to the prediction: one vector for the graph, for every node, or for every pair of nodes.
    """

    def __init__(self, model: Model, graphs: Sequence[Data]) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).double().eval()
        _check_parts(self.model)
        pooling, policy, members = self.model.pooling, self.model.policy, self.model.domain == "members"
        marks, features = policy.num_marks, self.model.in_channels
        most = max(int(data.num_nodes or 0) for data in graphs)
        bound = max([1.0, *(float(self.model.encode(data.x.double()).detach().abs().max()) for data in graphs if data.num_nodes)])

        stack: list[tuple[Any, bool]] = []  # layers, and whether values outside subgraphs become zero after them
        for layer in self.model.layers:
            parts = to_reign2(_over_all(layer))
            each = isinstance(layer, AKConv)  # SUN's needles on the way from its first part to its second have to stay
            stack += [(part, members and (each or part is parts[-1])) for part in parts]
        stack += [(layer, False) for layer in _outer(pooling)] if isinstance(pooling, OuterMPNN) else []
        self.channels = max([ign3.room(layer) for layer, _ in stack] + [ign3.room_of_members(marks + features), 4])
        self.to_cube = Program([ign3.lift_step(self.channels, marks, features)]) + ign3.policy_program(
            policy, self.channels, features
        )
        if members:
            self.to_cube += ign3.members_program(self.channels, marks + features, bound, ign3.has_roots(policy))
        for layer, only_members in stack:
            self.to_cube += ign3.layer_program(layer, self.channels, most * bound + 1)
            bound = max(ign3.grown(layer, bound, most), 1.0)
            if only_members:
                self.to_cube += ign3.members_program(self.channels, layer.out_channels, bound, ign3.has_roots(policy))

        over = _Pooling(self.channels, stack[-1][0].out_channels, members, ign3.has_roots(policy), most, bound)
        if self.model.task_level == "graph":
            self.from_cube = over.graph(pooling)
        else:
            self.from_cube = over.nodes(pooling, edges=self.model.task_level == "edge")
        if self.model.head is not None:
            self.from_cube += _head(self.model.head, {"graph": ("",), "node": ("a",), "edge": ("aa", "ab")}[self.model.task_level])

    @property
    def program(self) -> Program:
        """All steps, from the graph to the prediction."""
        return self.to_cube + self.from_cube

    def start(self, data: Data) -> Float[Tensor, "n n channels"]:
        """The input of the program: one graph with encoded features as a tensor of order 2."""
        check_simple(data)
        return graph_tensor(Data(x=self.model.encode(data.x.double()), edge_index=data.edge_index))

    def cube(self, data: Data) -> Float[Tensor, "n n n channels"]:
        """The cube of one graph after all layers."""
        return self.to_cube(self.start(data))

    def of_graph(self, data: Data) -> Float[Tensor, "rows out_channels"]:
        """Predict for a graph that it was made for, or for its nodes or edges."""
        out, level = self.program(self.start(data)), self.model.task_level
        return out[None] if level == "graph" else out if level == "node" else out[data.edge_index[0], data.edge_index[1]]


def _check_parts(model: Model) -> None:
    """Raise ``ValueError`` unless pooling and head have constructions."""
    pooling, head = model.pooling, model.head
    if type(pooling) not in (MeanPooling, DeepSets, RootPooling, OuterMPNN) or (isinstance(pooling, RootPooling) and pooling.unit):
        raise ValueError(
            f"the construction in 3-IGNs covers MeanPooling, DeepSets, RootPooling without unit=True, and NGNN's outer network, got {pooling}."
        )
    if isinstance(pooling, OuterMPNN) and pooling.over_nodes != "sum":
        raise ValueError("the construction covers NGNN only with readout='sum'.")
    plain = (nn.Linear, nn.Dropout, nn.Identity, Head)
    if head is not None and (head.log_softmax or not all(isinstance(part, plain) or part is head.act for part in head.modules())):
        raise ValueError("the construction in 3-IGNs covers heads without norms and log_softmax; make the model with another head.")


def _over_all(layer: Any) -> Any:
    """A copy of a layer that sums over all nodes."""
    layer = copy.deepcopy(layer)
    for part in layer.modules():
        if hasattr(part, "domain"):
            part.domain = "all"
    return layer


def _outer(pooling: OuterMPNN) -> list[SubgraphConv]:
    """NGNN's outer network as ReIGN(2) layers: broadcast the readouts, then the same message passing on the graph in all subgraphs."""
    d = pooling.out_channels
    eye = torch.eye(d, dtype=torch.float64)
    spread = reign2_layer({"node_readout_strict": eye, "node_root": eye}, {"readout_strict": eye, "own": eye}, None, "all")
    layers = [spread]
    for layer in pooling.layers:
        assert isinstance(layer, SubgraphConv)
        w = weights_of(layer)
        terms = {"own": w["own"], "readout@A": w["local"], "bias": w["bias"]}
        layers.append(reign2_layer(terms, dict(terms), activation(layer), "all"))
    return layers


class _Pooling:
    """Poolings as programs. Vectors of nodes have the values in their first channels, then places for a sum over subgraphs, a division and
    its gate, and in the last two channels the number of nodes of the own subgraph and of the graph.

    Args:
        channels: number of channels of the cube.
        width: number of channels of its values.
        members: whether sums and means are over members only; the others are zero in the cube.
        roots: whether roots are members of their subgraphs.
        most: the largest number of nodes.
        bound: an upper bound on the values.
    """

    def __init__(self, channels: int, width: int, members: bool, roots: bool, most: int, bound: float) -> None:
        self.cube, self.width, self.members, self.roots, self.most, self.bound = channels, width, members, roots, most, bound

    def graph(self, pooling: Pooling) -> Program:
        """From the cube to a vector of the graph."""
        if isinstance(pooling, DeepSets):
            self._make_room(max(part.out_features for part in [*pooling.each, *pooling.mean]))
            over = pooling.over_subgraphs
            program = self._readout() + self._divided(pooling.over_nodes, self.size)
            for number, each in enumerate(pooling.each):
                program += self._layer(each, pooling.mean[number] if pooling.invariance == "late" else None, over, pooling.act)
            program += self._total(over)
            rho: Iterable[Any] = pooling.mean if pooling.invariance == "early" else ()
            return program + Program([_linear(("",), part, pooling.act) for part in rho])
        self._make_room(self.width)
        if isinstance(pooling, MeanPooling):
            return self._readout() + self._divided(pooling.over_nodes, self.size) + self._total(pooling.over_subgraphs)
        assert isinstance(
            pooling, RootPooling | OuterMPNN
        )  # after NGNN's outer network, the values of a node are equal in all subgraphs
        return self._sums(("aaa",)) + self._total(pooling.over_roots if isinstance(pooling, RootPooling) else pooling.over_graph)

    def nodes(self, pooling: Pooling, edges: bool) -> Program:
        """From the cube to vectors of nodes, or to the concatenated vectors of pairs of nodes."""
        self._make_room(self.width)
        if isinstance(pooling, RootPooling | OuterMPNN):
            program = self._sums(("aaa",))
        else:  # the mean of a node over subgraphs
            program = self._sums(("aaa", "baa"), counted="bba") + self._divided("mean", self.size)
        w, one = self.width, torch.eye(self.width, dtype=torch.float64)
        if not edges:
            return program + Step(w, {"a": [("a->a", place(w, one, 0, 0, self.channels))]})
        first, second = (place(2 * w, one, 0, at, self.channels) for at in (0, w))
        return program + Step(2 * w, {"aa": [("a->aa", first + second)], "ab": [("a->ab", first), ("b->ab", second)]})

    def _make_room(self, width: int) -> None:
        room = max(width, self.width)
        self.sum, self.message, self.quotient, self.gate = (room * place for place in (1, 2, 3, 4))
        self.sides, self.closed = 6 * room, 6 * room + 2
        self.size, self.nodes_of_graph, self.channels = 6 * room + 3, 6 * room + 4, 6 * room + 5

    def _readout(self) -> Program:
        """The sum over the nodes of every subgraph."""
        return self._sums(("aaa", "abb"), counted="aab")

    def _sums(self, sources: tuple[str, ...], counted: str = "aab") -> Program:
        """The sum of some orbits of the cube at every node, with the number of members that are summed."""
        c, one = self.channels, torch.ones(1, 1, dtype=torch.float64)
        values = place(c, torch.eye(self.width, dtype=torch.float64), 0, 0, self.cube)
        update: Update = [(f"{source}->a", values) for source in sources]
        if self.members:
            update.append((f"{counted}->a", place(c, one, ign3.MEMBER, self.size, self.cube)))
        first = Step(c, {"a": update}, {"a": {self.size: float(self.members and self.roots), self.nodes_of_graph: 1.0}})
        count = place(c, one, self.nodes_of_graph, self.nodes_of_graph)
        if not self.members:
            count = count + place(c, one, self.nodes_of_graph, self.size)
        self.bound *= self.most
        return Program([first, Step(c, {"a": [("a->a", keep(c, self.nodes_of_graph)), ("b->a", count)]})])

    def _divided(self, how: str, count: int, at: int = 0) -> Program:
        """With the mean, divide values by a count. Each possible count has its quotient, and gates are open for the right one only."""
        if how == "sum":
            return Program()
        c, room, same = self.channels, self.sum, torch.eye(self.channels, dtype=torch.float64)
        message, quotient, closed, sides = self.message, self.quotient, self.closed, [self.sides, self.sides + 1]
        program = Program()
        for size in range(1, self.most + 1):  # |count - size| closes the gate of value / size
            offer = keep(c, *range(message, message + room), *sides, closed) + route(c, (at, message, room)) / size
            offer[sides, count] = torch.tensor([1.0, -1.0], dtype=torch.float64)
            program += Step(c, {"a": [("a->a", offer)]}, {"a": {sides[0]: -float(size), sides[1]: float(size)}}, {"a": sides})
            program += Step(c, {"a": [("a->a", same + sum(route(c, (side, closed, 1)) for side in sides))]})
            program += gate(c, "a", closed, message, room, self.gate, self.bound + 1)
            program += Step(c, {"a": [("a->a", same + route(c, (message, quotient, room)))]})
        moved = keep(c, *range(at, at + room), *range(quotient, quotient + room)) + route(c, (quotient, at, room))
        return program + Step(c, {"a": [("a->a", moved)]})

    def _layer(self, each: Any, mean: Any, over: str, act: Any) -> Program:
        """A layer of a set network: a linear map of every value, plus one of their sum or mean."""
        c, room = self.channels, self.sum
        program, matrix, bias = Program(), keep(c, *range(2 * room)), torch.zeros(c, dtype=torch.float64)
        matrix = matrix + place(c, each.weight.detach(), 0, 0)
        bias[: each.out_features] += each.bias.detach()
        growth = ign3.spread_of(each.weight) * self.bound + float(bias.abs().max())
        if mean is not None:
            program += Step(c, {"a": [("a->a", keep(c, *range(room, 2 * room))), ("b->a", route(c, (0, self.sum, room)))]})
            self.bound *= self.most
            program += self._divided(over, self.nodes_of_graph, at=self.sum)
            matrix = matrix + place(c, mean.weight.detach(), self.sum, 0)
            bias[: each.out_features] += mean.bias.detach()
            growth += ign3.spread_of(mean.weight) * self.bound + float(bias.abs().max())
        self.width, self.bound = each.out_features, growth + 1
        return program + Step(c, {"a": [("a->a", matrix)]}, {"a": bias}, *_activated(("a",), self.width, act))

    def _total(self, how: str) -> Program:
        """The sum or mean over nodes, which stand for their subgraphs."""
        out = place(self.width, torch.eye(self.width, dtype=torch.float64), 0, 0, self.channels)
        return self._divided(how, self.nodes_of_graph) + Step(self.width, {"": [("a->", out)]})


def _linear(orbits: tuple[str, ...], linear: Any, act: Any = None) -> Step:
    """A linear map of channels, and an activation."""
    weight, bias = linear.weight.detach(), torch.zeros(linear.out_features, dtype=torch.float64)
    if linear.bias is not None:
        bias = linear.bias.detach()
    maps: dict[str, Update] = {o: [(f"{o}->{o}", weight)] for o in orbits}
    return Step(linear.out_features, maps, dict.fromkeys(orbits, bias), *_activated(orbits, linear.out_features, act))


def _activated(orbits: tuple[str, ...], width: int, act: Any) -> tuple[dict[str, list[int]], Any]:
    """The last arguments of a step that applies an activation to its first channels."""
    if act is None or isinstance(act, nn.Identity):
        return {}, torch.relu
    return {orbit: list(range(width)) for orbit in orbits}, act


def _head(head: Head, orbits: tuple[str, ...]) -> Program:
    """The head as steps: the paper's MLP m."""
    maps = [head.get_submodule(f"lin{place}") for place in range(1, head.depth + 1)]
    return Program([_linear(orbits, part, None if part is maps[-1] else head.act) for part in maps])


# -- the theorems --------------------------------------------------------------------------------------------------------------


def implement(model: Model, target: str, graphs: Sequence[Data] | None = None) -> nn.Module:
    """Make a model of the target kind that computes the same as the given model.

    Args:
        model: DS, DSS, GNNAK, GNNAKctx, IDGNN, NGNN, SUN or ReIGN2 with ``conv="graphconv"``, linear terms, sums, ReLU and no norm.
        target: "reign2", "sun" or "ign3"; or "sun:null", SUN with the null policy in place of node marking or deletion.
        graphs: needed for "ign3": graphs on which the two models are equal. Their sizes and features bound the gates.

    Returns:
        For "ign3" an ``IGN3Model``, called in the same way on these graphs; for other targets a model that is called like any other.
    """
    if target not in ("reign2", "sun", "sun:null", "ign3"):
        raise ValueError(f"target is {target!r}, expected 'reign2', 'sun', 'sun:null' or 'ign3'.")
    if not model.linear_form or model.residual is not None or model.jk not in (None, "last"):
        kind = type(model).__name__
        raise ValueError(
            f"no construction is known for {kind}{'' if model.residual is None else ' with residual connections'} in {target}: the paper's "
            f"results cover DS-GNN, DSS-GNN, GNN-AK(-ctx), ID-GNN, NGNN, SUN and ReIGN(2), but not {kind} in {target}."
        )
    if target.startswith("sun") and isinstance(model, ReIGN2):
        raise ValueError(
            "SUN cannot implement ReIGN2: with node marking, ReIGN(2) tells graphs apart that no SUN does, such as the pair CFI(ladder 4) of "
            "family('cfi')."
        )
    if target in ("sun:null", "ign3"):
        for part in ("labels", "encodings", "virtual_node"):
            if getattr(model, part) is not None:
                raise ValueError(f"no construction in {target} is known for {part}; make the model without it.")
    if target == "ign3":
        if not graphs:
            raise ValueError(
                "implement(model, 'ign3') needs graphs, because the gates of the construction are exact only up to given sizes and features."
            )
        return IGN3Model(model, graphs)
    rewrite = to_reign2 if target == "reign2" else to_sun
    other = copy.deepcopy(model).double().eval()
    layers = [new for layer in other.layers for new in rewrite(layer)]
    if target == "sun:null":
        layers = to_null(layers, other.policy, other.domain)
        other.policy = policies.policy("null")
    other.layers = nn.ModuleList(layers).eval()
    other.num_layers = len(other.layers)
    other._config = {}  # its arguments do not describe its weights
    return other


def linear_options(model: type[Model]) -> Mapping[str, Any]:
    """The options of a model that the constructions cover: GraphConv, linear terms, sums over all nodes, ReLU, no norm."""
    return dict(model.linear_form)
