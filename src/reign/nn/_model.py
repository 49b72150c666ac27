"""The composition mu . rho . S . pi as a PyG-style model, how far its predictions reach, and a custom model from a list of terms."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Unpack, cast

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch_geometric.data.data import BaseData

from reign._validate import did_you_mean
from reign.bags import Domain, SubgraphBag
from reign.kernels import Sum, blocked, fast_path
from reign.nn._arguments import ModelType, full_signature, known_to_parents
from reign.nn._catalogue import MODELS
from reign.nn._convs import GCN, GIN, GraphConv
from reign.nn._describe import describe_model
from reign.nn._encoders import EncoderSpec, NormedNumbers
from reign.nn._inputs import check_bag, check_ends, check_features, inputs_of, refuse_arguments, warn_of_unused_edges
from reign.nn._layer import SubgraphConv, Transform
from reign.nn._mlp import Activation, NormRows
from reign.nn._modules import Claims, Modules
from reign.nn._options import Bias, CompositionOptions, Conv, LayerOptions, NormAt, RootNorms, Roots
from reign.nn._plan import plan_of
from reign.nn._saving import load_model, save_model
from reign.nn._slots import EncoderSlot, TermSlot
from reign.nn._state import Aggregation, State
from reign.nn._terms import Term
from reign.policies import Policy, Whole

STRAIGHT = nn.Identity()  # the residual connection of all layers but the first


class Model(Claims, Modules, metaclass=ModelType):
    r"""A subgraph GNN: :math:`(A, X) \mapsto (\mu \circ \rho \circ S \circ \pi)(A, X)`.

    Args:
        in_channels: number of channels of node features, after ``node_encoder`` if there is one.
        hidden_channels: number of channels of the layers.
        num_layers: number of layers.
        out_channels: number of channels of the prediction; None gives the pooled vectors themselves.
        layer: function that makes a layer for given numbers of input and output channels; the layer maps (h, bag) to new values of the
            pairs. A list of such functions makes one layer each, and may be longer than ``num_layers``.
        policy: pi, by name or as a ``Policy``.
        pooling, node_encoder, dropout, jk, residual, task_level, widths, labels, encodings, virtual_node, head: see
            ``CompositionOptions``.
        act: activation of the head (layers have their own).
        domain: see ``DomainOptions``.
    """

    _config: dict[str, Any]
    """The arguments that the constructor was given; empty if they do not, or no longer, describe the model."""

    # -- arguments -------------------------------------------------------------------------------------------------

    @classmethod
    def option_names(cls) -> list[str]:
        """The names of all arguments that the constructor takes.

        >>> Model.option_names()[:5]
        ['in_channels', 'hidden_channels', 'num_layers', 'out_channels', 'layer']
        """
        return list(full_signature(cls).parameters)

    @classmethod
    def refusal(cls, name: str, value: object) -> str:
        """The message for an argument that the constructor does not take."""
        if known_to_parents(cls, name):
            return f"{cls.__name__} does not use {name}={value!r}; leave it out."
        return f"{cls.__name__} has no option '{name}'{did_you_mean(name, cls.option_names())}"

    # -- forward ---------------------------------------------------------------------------------------------------

    def forward(
        self,
        x: Shaped[Tensor, "..."] | BaseData,
        edge_index: Shaped[Tensor, "..."] | None = None,
        edge_attr: Shaped[Tensor, "..."] | None = None,
        batch: Shaped[Tensor, "..."] | None = None,
        batch_size: int | None = None,
        *,
        bag: SubgraphBag | None = None,
        edge_label_index: Shaped[Tensor, "..."] | None = None,
        **unknown: object,
    ) -> Float[Tensor, "rows out_channels"]:
        """Predict for each graph, node or edge of a PyG batch: ``model(x, edge_index, ...)`` or ``model(data)``.

        Args:
            x: node features, shape (nodes, channels); or a PyG ``Data`` or ``Batch``, which has all other arguments.
            edge_index: edges, shape (2, edges).
            edge_attr: edge features, shape (edges, ...).
            batch: the graph of each node; one graph if not given.
            batch_size: number of graphs; needed only if the last graph may have no nodes.
            bag: the bag of this batch, if it has been made already.
            edge_label_index: the pairs of nodes to predict for, shape (2, pairs), with ``task_level="edge"``; the edges if not given.
            unknown: nothing else is taken; a ``ValueError`` says what to do, for example with ``edge_weight``.
        """
        if unknown:
            refuse_arguments(type(self).__name__, list(unknown))
        hops = None
        if not isinstance(x, Tensor):
            given = inputs_of(x, edge_index, edge_attr, batch, batch_size)
            x, edge_index, edge_attr, batch, batch_size, hops = given[:6]
            bag = given.bag if bag is None else bag
            edge_label_index = given.edge_label_index if edge_label_index is None else edge_label_index
        if edge_index is None:
            raise ValueError("edge_index is missing; call the model as model(x, edge_index) or model(data).")
        weight = self.edge_mask.weight(edge_index)
        if edge_attr is not None and not self._saw_edges:
            self._saw_edges = True
            warn_of_unused_edges(type(self).__name__, self.option_names(), self._config)
        if bag is not None:
            check_bag(bag, self.policy, edge_index, edge_attr)
            return self.predict(x, bag if weight is None else bag.weighted(weight), edge_label_index)

        outs, item = [], next((p.element_size() for p in self.parameters()), 4)
        for policy in self.policy.draws():
            drawn = policy(
                x,
                edge_index,
                edge_attr,
                batch,
                batch_size=batch_size,
                domain=self.domain,
                hop_distance=hops,
                state_bytes=self.hidden_channels * item,
            )
            outs.append(self.predict(x, drawn if weight is None else drawn.weighted(weight), edge_label_index))
        return outs[0] if len(outs) == 1 else torch.stack(outs).mean(0)

    def predict(
        self, x: Shaped[Tensor, "nodes *channels"], bag: SubgraphBag, ends: Int[Tensor, "2 pairs"] | None = None
    ) -> Float[Tensor, "rows out_channels"]:
        """Apply S, rho and mu to a bag.

        Args:
            x: node features.
            bag: the bag.
            ends: the pairs of nodes to predict for, at edge level; the edges of the graph if not given.
        """
        if ends is not None:
            check_ends(ends, self.task_level, bag)
        if self.needs_node_based and not (bag.has_some_roots and self.halo is not None):
            bag.require_roots(type(self).__name__)
        rows = {"rows": bag.real("node")} if isinstance(self.node_encoder, NormedNumbers) else {}  # other encoders have no norm
        h = self.lift(self.encode(x, **rows), bag)
        if self.labels is not None:
            h = self.labels(h, bag)
        if self.encodings is not None:
            h = self.encodings(h, bag)
        state = State(self.dropout(h) if self.drops_input else h, bag, self.domain)
        seen = [state.h]
        virtual = None if self.virtual_node is None else self.virtual_node.first(bag)
        drops = self.dropout.p > 0 and self.dropout.training
        needs = [*(getattr(layer, "needs", frozenset()) for layer in self.layers[1:]), self.pooling.needs]
        for t, (layer, wanted) in enumerate(zip(self.layers, needs, strict=True)):
            if self.virtual_node is not None and virtual is not None:
                state = self.virtual_node.read(state, virtual)
                virtual = self.virtual_node(virtual, state, t)
            if self.encodings is not None and self.encodings.every_layer and t > 0:
                state = State(self.encodings(state.h, bag, t), bag, self.domain)
            shortcut = self.residual if self.residual is None or t == 0 else STRAIGHT
            if isinstance(layer, SubgraphConv) and not drops:
                state = layer.update(state, None, wanted, shortcut)
            else:
                new = layer.update(state).h if isinstance(layer, SubgraphConv) else layer(state.h, bag)
                h = self.dropout(new)
                state = State(h if shortcut is None else h + shortcut(state.h), bag, self.domain)
            seen.append(state.h)
        if self.jk not in (None, "last"):
            state = State(self._jump(seen), bag, self.domain)
        return self.readout(state.view(self.domain, {}), ends)

    def prepare(self, x: Shaped[Tensor, "nodes *channels"], bag: SubgraphBag) -> SubgraphBag:
        """Build all index maps of a bag that this model needs, in one pass without gradients. ``torch.compile`` needs this."""
        modes = {module: module.training for module in self.modules()}
        self.eval()
        plain = fast_path(False) if bag.device.type == "cpu" else nullcontext()  # on a CPU plain operations are compiled
        with torch.no_grad(), plain:
            self.predict(x, bag)
        self.policy.train(modes[self])
        for module, mode in modes.items():
            module.training = mode
        return bag

    def encode(self, x: Shaped[Tensor, "nodes *channels"], rows: NormRows = None) -> Float[Tensor, "nodes in_channels"]:
        """Encode node features as vectors of ``in_channels``. The statistics of a norm are taken over ``rows`` only."""
        if self.node_encoder is not None:
            x = self.node_encoder(x, rows) if isinstance(self.node_encoder, NormedNumbers) else self.node_encoder(x)
        check_features(x, self.in_channels, next((p.dtype for p in self.layers.parameters()), x.dtype))
        return x

    def lift(self, x: Float[Tensor, "nodes in_channels"], bag: SubgraphBag) -> Float[Tensor, "pairs lifted"]:
        """Map values on nodes to values on pairs."""
        return bag.lift(x)

    def lifted_channels(self) -> int:
        """The number of channels of values on pairs: marks plus features."""
        return self.policy.num_marks + self.in_channels

    def readout(self, state: State, ends: Int[Tensor, "2 pairs"] | None = None) -> Float[Tensor, "rows out_channels"]:
        """Apply rho and mu."""
        bag, rows = state.bag, None if self.task_level == "edge" else state.bag.real(self.task_level)
        if self.task_level == "graph":
            out = self.pooling(state)
        else:
            out = self.pooling.nodes(state)
            if self.task_level == "edge":
                sums = bag.wiring.edge_ends if ends is None else [Sum.broadcast(end, bag.num_nodes) for end in ends]
                out = torch.cat([end(out) for end in sums], dim=1)
            elif bag.targets is not None:
                out, rows = out.index_select(0, bag.targets), None
        return out if self.head is None else self.head(out, rows)

    def _jump(self, seen: list[Tensor]) -> Tensor:
        """The input and the values after every layer, combined."""
        if self.jk == "cat+input":
            return torch.cat(seen, dim=1)
        if self.jk == "cat":
            return torch.cat(seen[1:], dim=1)
        return torch.stack(seen[1:]).amax(0) if self.jk == "max" else torch.stack(seen[1:]).sum(0)

    # -- modes and checks ------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> "Model":
        """Switch the model and its policy to training or evaluation."""
        self.policy.train(mode)
        return super().train(mode)

    @property
    def in_blocks(self) -> bool:
        """Whether all layers are computed in blocks of rows on a CPU (see ``reign.kernels``)."""
        return all(isinstance(layer, SubgraphConv) and _in_blocks(layer) for layer in self.layers)

    def uses_blocks(self, num_pairs: int) -> bool:
        """Whether some layers, or parts of them, are computed in blocks of rows on a CPU, for a batch of so many pairs."""
        layers = [part for part in self.modules() if isinstance(part, SubgraphConv) and _in_blocks(part)]
        return any(num_pairs * layer.out_channels >= blocked.LIMITS.numbers for layer in layers)

    @property
    def halo(self) -> int | None:
        """The largest hop distance from a node to the roots of the subgraphs that its prediction depends on; ``RootLoader`` uses it.

        0 if only its own subgraph matters, as in ``IDGNN``; the number of outer layers in ``NGNN``; the radius of the subgraphs in ``DS`` at
        node level, where a node is a mean over all subgraphs that it is in. None if subgraphs exchange values in layers, as in ``SUN``, or if
        there is no such bound. Models without a policy have no subgraphs; for them it is the number of hops that messages travel.
        """
        terms, policy = self._terms, self.policy
        if terms is None or self.encodings is not None or self.virtual_node is not None:
            return None
        if isinstance(policy, Whole):
            return hops_of(self.layers) if {term.name for term in terms} <= {"own", "local"} else None
        inside = self.domain == "members" and policy.node_based and all(term.stays_inside for term in terms)
        return None if policy.radius is None or not inside else self.pooling.reach(policy.radius)

    @property
    def needs_every_root(self) -> bool:
        """Whether the model needs a subgraph of every node, because it has terms such as x[i, i] that leave a subgraph."""
        terms = self._terms
        return self.halo is None and (
            self.needs_node_based or terms is None or any(term.node_based or term.place for term in terms)
        )

    @property
    def along_roots(self) -> bool:
        """Whether the model has terms along roots, such as needle:2, which are computed in slices of its bags."""
        slots = (part for part in self.modules() if isinstance(part, TermSlot))
        return (self.policy.num_anchors > 1 or not self.policy.node_based) and any(slot.term.place is not None for slot in slots)

    @property
    def _terms(self) -> list[Term] | None:
        """All terms of all layers, or None if some layers are not made of terms."""
        layers = [layer for layer in self.layers if isinstance(layer, SubgraphConv) and type(layer).update is SubgraphConv.update]
        if len(layers) < len(self.layers):
            return None
        return [term for layer in layers for on in (False, True) for slot in layer.slots(on) for term in slot.terms]

    describe = describe_model

    # -- on disk ---------------------------------------------------------------------------------------------------

    save_pretrained = save_model
    from_pretrained = classmethod(load_model)


def _in_blocks(layer: SubgraphConv) -> bool:
    return plan_of(layer).unsupported(blocked.LIMITS) is None


def hops_of(layers: nn.ModuleList) -> int | None:
    """The number of hops that messages on the graph itself go: one with each layer, and one more if degrees of neighbours are needed.

    None if a convolution of PyG is among them, which may pass messages further in one layer.
    """
    encoders = [slot.encoder for layer in layers for slot in cast(SubgraphConv, layer).slots() if isinstance(slot, EncoderSlot)]
    if not all(isinstance(encoder, GIN | GraphConv | GCN) for encoder in encoders):
        return None
    return len(layers) + any(isinstance(encoder, GCN) for encoder in encoders)


TERM_OPTIONS = (
    "terms",
    "root_terms",
    "transform",
    "aggregation",
    "roots",
    "on_pairs",
    "norm_at",
    "bias",
    "end_act",
    "root_norms",
    "edge_terms",
)


@MODELS.register("subgraphgnn")
class SubgraphGNN(Model):
    """A subgraph GNN defined by lists of terms. Every model of the paper is a special case.

    >>> model = SubgraphGNN(16, 64, 6, 1, policy="nm", terms=["own", "local", "transpose"], root_terms=["own", "readout"])
    >>> model
    SubgraphGNN(16 -> 64 x 6 -> 1, policy='nm', terms=['own', 'local', 'transpose'], root_terms=['own', 'readout'])

    Args:
        terms: terms of all pairs; ["own+local"] if not given.
        root_terms: terms of roots, which then have their own weights.
        policy: any policy.
        transform, aggregation, roots, on_pairs, norm_at, bias, end_act, root_norms, edge_terms: see ``SubgraphConv``.
        layer: function that makes a custom layer, given the numbers of input and output channels and ``LayerOptions``; or a list of such
            functions, one for each layer. It replaces the layer of terms.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        terms: Sequence[str] | None = None,
        root_terms: Sequence[str] | None = None,
        policy: str | Policy = "ego+:3",
        transform: Transform | None = None,
        conv: Conv = "gin",
        edge_dim: int | None = None,
        edge_encoder: EncoderSpec = None,
        aggregation: dict[str, Aggregation] | None = None,
        act: Activation = "relu",
        norm: str | None = "batch_norm",
        domain: Domain = "all",
        expansion: int = 1,
        train_eps: bool = True,
        roots: Roots | None = None,
        on_pairs: bool | None = None,
        norm_at: NormAt | None = None,
        bias: Bias | None = None,
        end_act: bool | None = None,
        root_norms: RootNorms | None = None,
        edge_terms: bool | None = None,
        layer: Callable[..., nn.Module] | Sequence[Callable[..., nn.Module]] | None = None,
        **options: Unpack[CompositionOptions],
    ) -> None:
        shared: LayerOptions = {
            "conv": conv,
            "edge_dim": edge_dim,
            "edge_encoder": edge_encoder,
            "act": act,
            "norm": norm,
            "domain": domain,
            "expansion": expansion,
            "train_eps": train_eps,
        }
        own = terms, root_terms, transform, aggregation, roots, on_pairs, norm_at, bias, end_act, root_norms, edge_terms
        used: dict[str, Any] = {name: value for name, value in zip(TERM_OPTIONS, own, strict=True) if value is not None}
        if layer is None:
            layer = partial(SubgraphConv, **({"terms": ("own+local",)} | used))
        elif used:
            raise ValueError(_has_layers_of_its_own(type(self), used))
        makers = [layer] if callable(layer) else layer
        layers = [partial(make, **shared) for make in makers]
        sizes = in_channels, hidden_channels, num_layers, out_channels
        super().__init__(*sizes, layer=layers[0] if callable(layer) else layers, policy=policy, act=act, domain=domain, **options)

    @classmethod
    def refusal(cls, name: str, value: object) -> str:
        """The message for an argument that the constructor does not take. Models with fixed layers do not accept terms."""
        if name in TERM_OPTIONS:
            return _has_layers_of_its_own(cls, {name: value})
        return super().refusal(name, value)

    def __repr__(self) -> str:
        sizes = f"{self.in_channels} -> {self.hidden_channels} x {self.num_layers}"
        if self.out_channels is not None:
            sizes += f" -> {self.out_channels}"
        layer = max(map(repr, self.layers), key=len)  # some models have other layers before or after their own
        terms = layer[layer.index(", ") + 2 : -1]
        return f"{type(self).__name__}({sizes}, policy='{self.policy}', {terms})"


def _has_layers_of_its_own(kind: type[Model], used: Mapping[str, object]) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in used.items())
    return f"{kind.__name__} has fixed layers, got {given}; use SubgraphGNN to choose terms."
