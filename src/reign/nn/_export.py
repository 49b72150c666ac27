"""Models as programs of others: of PyTorch alone for one graph, and SUN and DSS on ego nets as an ONNX graph for a molecule of any size.

The ONNX graph has hops by powers of the adjacency matrix, and every term by its dense formula.

Values x[k, i] are a tensor of shape (subgraphs, nodes, channels), messages have one row for each direction of a bond and subgraph that it is in, and batch
norms are parts of the linear maps before them. With ``domain="members"``, linear maps are applied to the rows of members alone, and all other values are 0.
"""

import copy
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.export import ExportedProgram, export

from reign.bags import SubgraphBag
from reign.kernels import fast_path
from reign.nn._convs import GIN
from reign.nn._encoders import OGB_ATOM, OGB_BOND, TypeEmbedding
from reign.nn._inputs import inputs_of
from reign.nn._layer import SubgraphConv
from reign.nn._mlp import MLP, BatchNorm, Linear, NoNorm
from reign.nn._model import Model
from reign.nn._pooling import MeanPooling
from reign.nn._slots import Slot, TermLayer, TermSlot
from reign.nn._state import Aggregation
from reign.policies import EgoNets

AXES = {"pair": [], "subgraph": [1], "node": [0]}  # the axes that values of a scope do not have
REDUCE = {"sum": "ReduceSum", "mean": "ReduceMean"}


class OnnxGraph:
    """The nodes and weights of an ONNX graph: ``graph("Add", a, b)`` adds a node to it, and returns the name of the node's output."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: dict[tuple[str, tuple[int, ...], bytes], Any] = {}
        self._known: dict[tuple[Any, ...], str] = {}

    def __call__(self, kind: str, *inputs: str | Tensor | np.ndarray | float | list[int], **attributes: Any) -> str:
        """Add a node. Inputs are names of values, or numbers; the same node is added once."""
        from onnx import helper

        names = tuple(given if isinstance(given, str) else self._weight(given) for given in inputs)
        key = kind, names, repr(attributes)
        if key not in self._known:
            self._known[key] = f"v{len(self.nodes)}"
            self.nodes.append(helper.make_node(kind, names, [self._known[key]], **attributes))
        return self._known[key]

    def _weight(self, given: Tensor | np.ndarray | float | list[int]) -> str:
        from onnx import numpy_helper

        array = given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
        array = array.astype(np.float32 if array.dtype.kind == "f" else np.int64)
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self.weights:
            self.weights[key] = numpy_helper.from_array(array, f"w{len(self.weights)}")
        return str(self.weights[key].name)


class OnnxModel:
    """A model as a part of an ONNX graph.

    Args:
        model: the model.
        graph: the graph, to which nodes are added.
        atoms, bonds, kinds: the names of its inputs: types of atoms (atoms, columns), both ends of bonds in each direction (2, bonds), types of
            bonds (bonds, columns).
    """

    def __init__(self, model: Model, graph: OnnxGraph, atoms: str, bonds: str, kinds: str) -> None:
        check_onnx(model)
        policy = model.policy
        assert isinstance(policy, EgoNets)
        self.model, self.g, g = model, graph, graph
        self.x = self.types(cast(TypeEmbedding, model.node_encoder), atoms)
        # one more row, a bond that ends at no node: onnxruntime does not set the result of a product over no rows to zero
        self.kinds = g("Concat", kinds, np.zeros((1, len(OGB_BOND)), int), axis=0)
        ends = [g("Gather", bonds, end, axis=0) for end in (0, 1)]
        self.source, self.target = (g("Concat", end, [0], axis=0) for end in ends)
        self.number = g("Shape", atoms, start=0, end=1)
        self.each = g("Range", 0, g("Squeeze", self.number), 1)
        self.is_root = g("Equal", g("Unsqueeze", self.each, [1]), g("Unsqueeze", self.each, [0]))
        self.diagonal = g("Cast", self.is_root, to=1)
        out_of, self.into = (self.ends(g("Concat", end, [-1], axis=0)) for end in ends)  # (nodes, bonds)
        near = g("Add", g("MatMul", self.into, g("Transpose", out_of, perm=[1, 0])), self.diagonal)
        inside = self.diagonal
        for _ in range(policy.num_hops):
            inside = g("Cast", g("Greater", g("MatMul", inside, near), 0.5), to=1)
        self.inside, self.only_members = inside, model.domain == "members"
        self.members = g("Transpose", g("NonZero", inside), perm=[1, 0])  # (members, 2): k, i
        self.many = g("Shape", self.members, start=0, end=1)
        nowhere = g("Expand", 0, g("Concat", self.number, self.number, axis=0))
        row = g("ScatterND", nowhere, self.members, g("Range", 0, g("Squeeze", self.many), 1))  # of each member
        both = g("Mul", g("MatMul", inside, out_of), g("MatMul", inside, self.into))  # (subgraphs, bonds)
        where, self.bond = (g("Gather", g("NonZero", both), axis, axis=0) for axis in (0, 1))  # one for each bond inside
        self.out_of_pair, into_pair = (self.pairs(where, g("Gather", end, self.bond, axis=0)) for end in (self.source, self.target))
        place = g("ReduceSum", g("Mul", self.into, g("CumSum", self.into, 1)), [0], keepdims=0)
        place = g("Sub", g("Cast", place, to=7), 1)  # 0 for the first bond into a node, 1 for the next
        self.degree = g("Add", g("Max", g("ReduceMax", place, keepdims=1), [0]), 1)
        self.into_place = self.pairs(g("GatherND", row, into_pair), g("Gather", place, self.bond, axis=0))
        self.into_roots = self.pairs(self.target, self.source)

    def pairs(self, subgraphs: str, nodes: str) -> str:
        """Indices of pairs, shape (number, 2)."""
        return self.g("Concat", self.g("Unsqueeze", subgraphs, [1]), self.g("Unsqueeze", nodes, [1]), axis=1)

    def ends(self, nodes: str) -> str:
        """A one for each bond that has its end at a node, shape (nodes, bonds)."""
        return self.g("Cast", self.g("Equal", self.g("Unsqueeze", self.each, [1]), self.g("Unsqueeze", nodes, [0])), to=1)

    def outputs(self) -> str:
        """The predictions, shape (1, outputs)."""
        g, model = self.g, self.model
        mark, c = model.policy.mark, model.in_channels
        parts = [g("Expand", g("Unsqueeze", self.x, [0]), g("Concat", self.number, self.number, [c], axis=0))]
        if mark:
            parts.insert(0, g("Unsqueeze", self.diagonal, [2]))
        if mark is True:
            parts.insert(1, g("Unsqueeze", g("Sub", 1.0, self.diagonal), [2]))
        h = self.rows(parts[0] if len(parts) == 1 else g("Concat", *parts, axis=2))
        for t, layer in enumerate(model.layers):
            new = self.layer(cast(TermLayer, layer), self.dense(h))
            if model.residual is not None:
                new = g("Add", new, self.linear(model.residual, h) if t == 0 and isinstance(model.residual, nn.Linear) else h)
            h = new
        pooling, head = cast(MeanPooling, model.pooling), model.head
        out = self.total(self.dense(h), pooling.over_nodes, 1)
        out = g(REDUCE[pooling.over_subgraphs], out, [0], keepdims=0)
        out = g("Unsqueeze", out, [0])
        if head is None:
            return out
        for place in range(1, head.depth):
            out = self.act(head.act, self.linear(head.get_submodule(f"lin{place}"), out, head.get_submodule(f"norm{place}")))
        return self.linear(head.get_submodule(f"lin{head.depth}"), out)

    def rows(self, values: str) -> str:
        """The values of the pairs that the model updates: all of them, or a row for each member."""
        return self.g("GatherND", values, self.members) if self.only_members else values

    def dense(self, rows: str) -> str:
        """The values of all pairs, which are 0 outside of the domain."""
        return self.scattered(rows, self.members, self.number, self.number) if self.only_members else rows

    def scattered(self, rows: str, places: str, *sizes: str) -> str:
        """Rows at their places, which all differ, and 0 at others: onnxruntime on several threads would add up rows at one place incorrectly."""
        size = self.g("Concat", *sizes, self.g("Shape", rows, start=1), axis=0)
        return self.g("ScatterND", self.g("Expand", 0.0, size), places, rows)

    def spread(self, values: str, scope: str) -> str:
        """The values of a scope at each of the pairs, or in a form that is broadcast to them."""
        if not self.only_members:
            return self.g("Unsqueeze", values, AXES[scope]) if AXES[scope] else values
        axis = {"subgraph": 0, "node": 1}.get(scope)
        return values if axis is None else self.g("Gather", values, self.g("Gather", self.members, axis, axis=1), axis=0)

    def layer(self, layer: TermLayer, h: str) -> str:
        """The new values of the pairs, in rows, from their dense values."""
        g = self.g
        out = self.added(layer, h, False)
        if layer.root_terms is not None and layer.roots == "added":
            roots = self.spread(self.added(layer, h, True), "subgraph")
            out = g("Add", out, g("Mul", self.rows(g("Unsqueeze", self.diagonal, [2])), roots))
        out = self.act(layer.act, self.normed(layer.norm, out))
        if layer.root_norm is not None:
            roots = self.act(layer.act, self.normed(layer.root_norm, self.added(layer, h, True)))
            out = g("Where", self.rows(g("Unsqueeze", self.is_root, [2])), self.spread(roots, "subgraph"), out)
        return out

    def added(self, layer: TermLayer, h: str, on: bool) -> str:
        """The sum of all terms, of all pairs or of the roots."""
        parts = []
        for slot in layer.slots(on):
            part = self.slot(slot, layer.aggregation, h, on)
            parts.append(part if on else self.spread(part, slot.terms[0].scope))
        out = parts[0]
        for part in parts[1:]:
            out = self.g("Add", out, part)
        return out

    def slot(self, slot: Slot, aggregation: dict[str, Aggregation], h: str, on: bool) -> str:
        """A term with its transform, or terms with their base encoder."""
        g, own = self.g, self.term(slot.terms[0].name, aggregation, h, on)
        on_pairs = slot.terms[0].scope == "pair" and not on
        if isinstance(slot, TermSlot):
            return self.mlp(slot.transform, self.rows(own) if on_pairs else own)
        encoder = cast(GIN, slot.encoder)
        if slot.terms[0].scope == "node":
            messages = g("Gather", own, self.source, axis=0)
        else:
            messages = g("GatherND", h, self.into_roots if on else self.out_of_pair)
        if encoder.edge_encoder is not None:
            kinds = self.types(cast(TypeEmbedding, encoder.edge_encoder), self.kinds)
            messages = g("Relu", g("Add", messages, g("Gather", kinds, self.bond, axis=0) if on_pairs else kinds))
        if on_pairs:
            near = g("ReduceSum", self.scattered(messages, self.into_place, self.many, self.degree), [1], keepdims=0)
            near = near if self.only_members else self.scattered(near, self.members, self.number, self.number)
            own = self.rows(own)
        else:
            near = g("MatMul", self.into, messages)  # all bonds at a root are inside
        return self.mlp(encoder.mlp, g("Add", g("Mul", own, 1 + encoder.eps.detach()), near), slot.norm)

    def term(self, name: str, aggregation: dict[str, Aggregation], h: str, on: bool) -> str:
        """The values of a term where they live; for roots a row for each."""
        how = aggregation.get(name, "sum")
        if name in ("root", "node_root") or (on and name in ("own", "transpose")):
            return self.g("GatherND", h, self.g("Concat", *[self.g("Unsqueeze", self.each, [1])] * 2, axis=1))
        if name == "own":
            return h
        if name == "transpose":
            return self.g("Transpose", h, perm=[1, 0, 2])
        return self.total(h, how, {"readout": 1, "needle": 0}[name])

    def total(self, h: str, how: Aggregation, axis: int) -> str:
        """The sum or mean of the pairs of the domain along an axis."""
        if how == "mean" and self.only_members:  # a root is a member, so no number is 0
            number = self.g("Unsqueeze", self.g("ReduceSum", self.inside, [axis], keepdims=0), [1])
            return self.g("Div", self.total(h, "sum", axis), number)
        return self.g(REDUCE[how], h, [axis], keepdims=0)

    def types(self, encoder: TypeEmbedding, rows: str) -> str:
        """The sum of the vectors of all types in a row."""
        first = np.cumsum([0, *encoder.sizes[:-1]])
        vectors = self.g(
            "Gather",
            torch.cat([cast(nn.Embedding, column).weight for column in encoder.columns]),
            self.g("Add", rows, first),
            axis=0,
        )
        return self.g("ReduceSum", vectors, [1], keepdims=0)

    def mlp(self, module: nn.Module, x: str, norm: nn.Module | None = None) -> str:
        """An MLP, or a linear map, with a norm after it."""
        if isinstance(module, MLP):
            x, module = self.act(module.act, self.linear(module.lin1, x, module.norm)), module.lin2
        return self.linear(module, x, norm)

    def linear(self, module: nn.Module, x: str, norm: nn.Module | None = None) -> str:
        """A linear map and the norm after it."""
        lin = cast(nn.Linear, module)
        scale, shift = _affine(norm, lin.out_features)
        bias = (0 if lin.bias is None else lin.bias.detach().double()) * scale + shift
        out = self.g("MatMul", x, (lin.weight.detach().double() * scale[:, None]).t())
        return self.g("Add", out, bias) if bool(bias.any()) else out

    def normed(self, norm: nn.Module | None, x: str) -> str:
        """A norm that does not follow a linear map."""
        if not isinstance(norm, BatchNorm):
            return x
        scale, shift = _affine(norm, norm.num_features)
        return self.g("Add", self.g("Mul", x, scale), shift)

    def act(self, module: nn.Module, x: str) -> str:
        """An activation."""
        return self.g("Relu", x) if isinstance(module, nn.ReLU) else x


def _affine(norm: nn.Module | None, channels: int) -> tuple[Tensor, Tensor]:
    """A batch norm in evaluation mode as a factor and a number to add."""
    if not isinstance(norm, BatchNorm):
        return torch.ones(channels, dtype=torch.float64), torch.zeros(channels, dtype=torch.float64)
    mean, var, weight, bias = (
        t.detach().double() for t in (norm.running_mean, norm.running_var, norm.weight, norm.bias) if t is not None
    )
    scale = weight / (var + norm.eps).sqrt()
    return scale, bias - mean * scale


# -- what can be exported ------------------------------------------------------------------------------------------------------

CAN = (
    "an ONNX file can hold SUN and DSS, and other models of their terms, with the policies ego and ego+ (as in ego+:3), conv='gin', ReLU, batch norm, and sums or "
    "means over nodes and subgraphs"
)
SINGLE = ("own", "transpose", "root", "node_root", "readout", "needle")
MERGED = ("own+local", "needle+needle_msg")


def check_onnx(model: Model) -> None:
    """Raise ``ValueError`` if a model has parts that ``OnnxModel`` does not know."""
    for fits, what in _parts(model):
        if not fits:
            raise ValueError(f"{type(model).__name__} has {what}, but {CAN}.")


def _parts(model: Model) -> list[tuple[bool, str]]:
    policy, head = model.policy, model.head
    ego = type(policy) is EgoNets and policy.mark in (False, True, "single")
    found = [
        (ego, f"the policy '{policy}'"),
        (
            all(getattr(type(model), name) is getattr(Model, name) for name in ("predict", "lift", "readout")),
            "a forward of its own",
        ),
        (model.jk in (None, "last"), f"jk='{model.jk}'"),
        (model.labels is None and model.encodings is None and model.virtual_node is None, "labels, encodings or a virtual node"),
        (model.task_level == "graph", f"predictions at the level of a {model.task_level}"),
        (_types_like(model.node_encoder, OGB_ATOM), "other features of nodes than types of atoms, such as descriptors"),
        (type(model.pooling) is MeanPooling, f"the pooling {type(model.pooling).__name__}"),
        (head is None or not head.log_softmax, "a head with log_softmax"),
        *((_plain(module), f"the module {type(module).__name__}") for module in ([] if head is None else head.children())),
        (isinstance(model.residual, nn.Linear | nn.Identity | None), "a residual connection of its own"),
    ]
    for layer in model.layers:
        if not isinstance(layer, SubgraphConv) or type(layer).update is not SubgraphConv.update:
            return [*found, (False, f"the layer {type(layer).__name__}")]
        found.append((layer.domain == model.domain, f"domain='{model.domain}', and a layer with domain='{layer.domain}'"))
        slots = [*layer.slots(), *layer.slots(on=True)]
        found += [(slot.name in (SINGLE if isinstance(slot, TermSlot) else MERGED), f"the term '{slot.name}'") for slot in slots]
        found += [(name in SINGLE, f"a mean of '{name}'") for name, how in layer.aggregation.items() if how == "mean"]
        found += [(_plain(module), f"the module {type(module).__name__}") for module in (layer.norm, layer.root_norm, layer.act)]
        for slot in slots:
            inside = [slot.transform, slot.edge_encoder] if isinstance(slot, TermSlot) else [slot.encoder, slot.norm]
            if isinstance(slot, TermSlot):
                fits = isinstance(slot.transform, MLP | Linear) and slot.edge_encoder is None
            else:
                fits = type(slot.encoder) is GIN
                bonds = cast(GIN, slot.encoder).edge_encoder if fits else None
                found.append((bonds is None or _types_like(bonds, OGB_BOND), "other features of edges than types of bonds"))
            found.append((fits, f"the transform {type(inside[0]).__name__} of '{slot.name}'"))
            leaves = [m for part in inside if part is not None for m in part.modules() if not list(m.children())]
            found += [(_plain(m) or isinstance(m, nn.Embedding | nn.ModuleList), f"the module {type(m).__name__}") for m in leaves]
    return found


def _types_like(encoder: nn.Module | None, sizes: list[int]) -> bool:
    """Whether an encoder is one of types, with these numbers of types."""
    return isinstance(encoder, TypeEmbedding) and encoder.sizes == sizes


def _plain(module: nn.Module | None) -> bool:
    """Whether a module is a linear map, a batch norm with its statistics, ReLU, or does nothing in evaluation."""
    if isinstance(module, BatchNorm):
        return module.running_mean is not None and module.running_var is not None
    return module is None or type(module) in (nn.Linear, Linear, nn.ReLU, nn.Identity, NoNorm, nn.Dropout)


class _Fixed(nn.Module):
    """A model for one bag, as a function of node features."""

    def __init__(self, model: Model, bag: SubgraphBag) -> None:
        super().__init__()
        self.model, self.bag = model, bag

    def forward(self, x: Shaped[Tensor, "nodes *channels"]) -> Float[Tensor, "rows out_channels"]:
        """The predictions for these features."""
        return self.model.predict(x, self.bag)


def export_program(model: Model, data: Any) -> ExportedProgram:
    """A model for one graph or batch as a program of PyTorch alone: ``program.module()(x)`` predicts for other features of the same graph.

    ``torch.export.save`` writes the program to a file, and ``torch.export.load`` reads it where this library is not installed. The bag and its
    index maps are constants of the program, as are edge features, so it works for this graph only: making the bag of another graph is a search
    whose result has no fixed size, which ``torch.export`` cannot trace.

    Args:
        model: the model, which is exported as in evaluation mode.
        data: a PyG ``Data`` or ``Batch``.
    """
    given = inputs_of(data)
    plain = copy.deepcopy(model).eval()
    if len(plain.policy.draws()) > 1:
        raise ValueError(
            f"policy '{model.policy}' averages several draws of subgraphs, which is not one program; leave eval_draws out."
        )
    bag = given.bag if given.bag is not None else plain.policy.from_data(data, plain.domain)
    plain.prepare(given.x, bag)
    with fast_path(False):  # fused kernels are part of this library
        program = export(_Fixed(plain, bag), (given.x,))
    for name, value in program.constants.items():  # index maps can be parts of one another, which files do not keep
        program.constants[name] = value.clone() if isinstance(value, Tensor) else value
    return program
