"""Base encoders: message passing in all subgraphs at once, over the edges of the one shared graph.

GIN, GCN, GraphConv and local folklore message passing are our own; any other convolution of PyG runs on the disjoint union of all subgraphs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import ClassVar, Unpack

import torch
import torch_geometric.nn as pyg
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from reign.bags import Messages, SubgraphBag, kernel_edges
from reign.kernels import Edges, PassedMessages, kernels_for
from reign.nn._encoders import EdgeAttr, EncoderSpec, TypeEmbedding, different_rows, encode_edges, make_edge_encoder
from reign.nn._mlp import MLP, Activation, Resettable
from reign.nn._options import BaseEncoderOptions, Conv
from reign.nn._slots import Neighbourhood
from reign.nn._state import State
from reign.nn._terms import ALONG, FOLKLORE, MERGED
from reign.registry import Registry


@dataclass(frozen=True)
class GINParts:
    r"""The parts of :math:`\mathrm{MLP}((1 + \epsilon) x_i + \sum_j m_{ij})`, where the messages :math:`m_{ij}` may depend on edge features.

    Args:
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        edge_dim, edge_encoder, expansion, train_eps: see ``MessageOptions``.
        norm, act: see ``TransformOptions``.
        bias: whether the linear maps of MLPs have biases.
    """

    in_channels: int
    out_channels: int
    edge_dim: int | None = None
    edge_encoder: EncoderSpec = None
    norm: str | None = "batch_norm"
    act: Activation = "relu"
    expansion: int = 1
    train_eps: bool = True
    bias: bool = True

    def mlp(self) -> MLP:
        """A new MLP."""
        hidden = self.expansion * self.out_channels
        return MLP(self.in_channels, self.out_channels, hidden=hidden, norm=self.norm, act=self.act, bias=self.bias)

    def eps(self, number: int = 1) -> nn.Parameter:
        """New epsilons, which are 0."""
        return nn.Parameter(torch.zeros(number), requires_grad=self.train_eps)

    def edges(self) -> nn.Module | None:
        """A new encoder of edge features; None if there are none."""
        return make_edge_encoder(self.edge_encoder, self.edge_dim, self.in_channels)


def own_and_sum(
    own: Float[Tensor, "rows channels"], total: Float[Tensor, "rows channels"], eps: Tensor
) -> Float[Tensor, "rows channels"]:
    r"""The input of GIN's MLP: :math:`(1 + \epsilon) x_i + \sum_j m_{ij}`.

    Args:
        own: the values.
        total: the sums of their messages.
        eps: one number.
    """
    if (kernels := kernels_for(own)) is not None and own.shape == total.shape and total.dtype == own.dtype:
        done: Tensor = kernels.own_and_sum(own, total, eps)
        return done
    return (1 + eps) * own + total


class BaseEncoder(Resettable):
    """A base encoder: message passing that runs in all subgraphs, or on the graph. If messages from roots have their own weights, ``mix``
    holds one linear map for each sum of messages.

    Args:
        in_channels, out_channels: see ``SubgraphConv``.
        merged: which terms are merged, one of ``MERGED``.
    """

    takes_edges: ClassVar[bool] = False
    """Whether the encoder uses edge features."""

    def __init__(self, in_channels: int, merged: str) -> None:
        super().__init__()
        parts = len(MERGED[merged].others)
        self.mix = nn.ModuleList([nn.Linear(in_channels, in_channels, bias=False) for _ in range(parts)] if parts > 1 else [])

    def gather(self, sums: list[Float[Tensor, "rows channels"]]) -> Float[Tensor, "rows channels"]:
        """Combine one or several sums over neighbours into one."""
        if not self.mix:
            return sums[0]
        return torch.stack([mix(part) for mix, part in zip(self.mix, sums, strict=True)]).sum(0)


CONVS: Registry[type[BaseEncoder]] = Registry("base encoder", spelling=str.lower)


@CONVS.register("gine")
@CONVS.register("gin")
class GIN(BaseEncoder):
    r"""GIN (Xu et al. 2019): :math:`\mathrm{MLP}((1 + \epsilon) x_i + \sum_{j \sim i} x_j)`.

    With edge features it is GINE (Hu et al. 2020): the messages are :math:`\mathrm{relu}(x_j + e_{ij})`.

    Args:
        options: see ``GINParts``.
    """

    takes_edges: ClassVar[bool] = True

    def __init__(
        self, in_channels: int, out_channels: int, merged: str = "own+local", **options: Unpack[BaseEncoderOptions]
    ) -> None:
        super().__init__(in_channels, merged)
        parts = GINParts(in_channels, out_channels, **options)
        self.mlp, self.eps, self.edge_encoder = parts.mlp(), parts.eps(), parts.edges()

    def reset_own(self) -> None:
        """Epsilon is 0 again."""
        self.eps.zero_()

    def forward(self, n: Neighbourhood) -> Float[Tensor, "rows channels"]:
        """Update the rows."""
        out: Tensor = self.mlp(self.collected(n), n.rows)
        return out

    def collected(self, n: Neighbourhood) -> Float[Tensor, "rows channels"]:
        """The input of the MLP: the values plus the sum of their messages."""
        if (done := self._collected_in_kernels(n)) is not None:
            return done
        if self.edge_encoder is None:
            sums = n.sums
        else:
            edge = encode_edges(self.edge_encoder, n.edge_attr)
            messages = n.messages
            sums = n.collect((messages.from_rows(n.source) + messages.from_edges(edge)).relu())
        return own_and_sum(n.own, self.gather(sums), self.eps)

    def _collected_in_kernels(self, n: Neighbourhood) -> Float[Tensor, "rows channels"] | None:
        """The input of the MLP in one pass over the messages; None where plain operations have to do it.

        If messages from roots have their own weights, the two sums are mixed between.
        """
        source, bag, kernels = n.source, n.state.bag, kernels_for(n.source)
        unused = n.merge.neighbours is None or n.averaged or bag.edge_weight is not None or source.size(0) == 0
        unused = unused or (bag.missing is not None and n.neighbours in ("agg", "swap"))  # these messages are scaled
        if kernels is None or unused:
            return None
        if len(n.merge.others) == 1:
            messages = self.messages(kernel_edges(bag, n.neighbours, n.where), n, kernels)
            return kernels.pass_messages(n.own, source, [messages])[0]
        parts = [kernel_edges(bag, n.neighbours, n.where, sources) for sources in ("others", "roots")]
        sums = [kernels.pass_messages(None, source, [self.messages(edges, n, kernels)])[0] for edges in parts]
        return kernels.own_and_sum(n.own, self.gather(sums), self.eps)

    def messages(self, edges: Edges, n: Neighbourhood, kernels: ModuleType) -> PassedMessages:
        """The messages in the form that kernels take: with edge features as a table of vectors if there are few types, otherwise one for each edge."""
        types, attr, state = self.edge_encoder, n.edge_attr, n.state
        if types is None:
            return PassedMessages(edges, None, self.eps)
        if isinstance(types, TypeEmbedding) and len(types.columns) == 1 and (kind := types_of_edges(state, attr)) is not None:
            weight = types.columns[0].weight
            assert isinstance(weight, Tensor)
            if weight.size(0) <= kernels.FEW_TYPES:
                return PassedMessages(_with_kinds(state, edges, kind), weight, self.eps)
        if kernels.LIMITS.few_kinds and isinstance(types, TypeEmbedding) and attr is not None:
            rows, kind, _ = state.once_for_all(("kinds of edges", str(id(attr))), lambda: (*different_rows(attr), attr))
            if rows.size(0) <= kernels.LIMITS.few_kinds:
                hot = state.once_for_all(("types of kinds", str(types.sizes), str(id(attr))), lambda: types.many_hot(rows))
                return PassedMessages(_with_kinds(state, edges, kind), types.of_many_hot(hot), self.eps)
        table = encode_edges(types, attr)
        return PassedMessages(edges, table.expand(-1, self.mlp.lin1.in_features).contiguous(), self.eps)


def _with_kinds(state: State, edges: Edges, kind: Int[Tensor, "edges"]) -> Edges:
    """Messages whose edges have types; the same object for all layers, with which kernels keep what follows from it."""
    return state.once_for_all(("edges with types", str(id(edges)), str(id(kind))), lambda: replace(edges, kind=kind))


def types_of_edges(state: State, attr: EdgeAttr) -> Int[Tensor, "edges"] | None:
    """Edge features as 32-bit integers if they are types, otherwise None. They are kept with the features, so that no others have the same id."""
    if attr is None or attr.is_floating_point() or attr.numel() != attr.size(0):
        return None
    return state.once_for_all(("types of edges", str(id(attr))), lambda: (attr.reshape(-1).to(torch.int32), attr))[0]


@CONVS.register("gcn")
class GCN(BaseEncoder):
    r"""GCN (Kipf & Welling 2017): :math:`\sum_{j \in N(i) \cup \{i\}} W x_j / \sqrt{d_i d_j}`, where the degree :math:`d_i` counts i itself.

    Of its options only ``bias`` has an effect.
    """

    def __init__(
        self, in_channels: int, out_channels: int, merged: str = "own+local", **options: Unpack[BaseEncoderOptions]
    ) -> None:
        super().__init__(in_channels, merged)
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels)) if options.get("bias", True) else None

    def reset_own(self) -> None:
        """The bias is 0 again."""
        if self.bias is not None:
            self.bias.zero_()

    def forward(self, n: Neighbourhood) -> Float[Tensor, "rows channels"]:
        """Update the rows."""
        wiring = n.state.bag.wiring
        everywhere = wiring.messages(n.neighbours)
        scale = (everywhere.into_targets(_no_loops(everywhere).to(n.own.dtype)) + 1).rsqrt()  # at every row
        here, targets = (scale, None) if n.where == "off" else (scale.index_select(0, wiring.root_row), wiring.root_row)
        sums = n.collect(n.messages.from_rows(n.source * scale) * _no_loops(n.messages, targets))
        out: Tensor = self.lin(here * (self.gather(sums) + here * n.own))
        return out if self.bias is None else out + self.bias


@CONVS.register("graphconv")
class GraphConv(BaseEncoder):
    r"""GraphConv (Morris et al. 2019): :math:`W_1 x_i + W_2 \sum_{j \sim i} x_j`.

    Of its options only ``bias`` has an effect.
    """

    def __init__(
        self, in_channels: int, out_channels: int, merged: str = "own+local", **options: Unpack[BaseEncoderOptions]
    ) -> None:
        super().__init__(in_channels, merged)
        self.mix = nn.ModuleList()
        self.lin_own = nn.Linear(in_channels, out_channels, bias=options.get("bias", True))
        self.lin_sums = nn.ModuleList([nn.Linear(in_channels, out_channels, bias=False) for _ in MERGED[merged].others])

    def forward(self, n: Neighbourhood) -> Float[Tensor, "rows channels"]:
        """Update the rows."""
        out: Tensor = self.lin_own(n.own)
        for lin, part in zip(self.lin_sums, n.sums, strict=True):
            out = out + lin(part)
        return out


def _no_loops(messages: Messages, targets: Int[Tensor, "roots"] | None = None) -> Bool[Tensor, "messages 1"]:
    """Which messages go to a row other than their source. ``targets`` holds the rows of the targets if only roots are updated."""
    target = messages.into_targets.index_t
    return (messages.from_rows.index != (target if targets is None else targets[target]))[:, None]


class Folklore(BaseEncoder):
    r"""Local 2-folklore message passing, along nodes, along subgraphs, or the sum of both (Zhang et al. 2024).

    .. math:: \mathrm{MLP}_1 \big( (1 + \epsilon_1) x^k_i + \textstyle\sum_{j \sim i} \mathrm{relu}(A x^k_j + B x^j_i + e_{ij}) \big)
              + \mathrm{MLP}_2 \big( (1 + \epsilon_2) x^k_i + \sum_{j \sim k} \mathrm{relu}(A x^j_i + B x^k_j + e_{kj}) \big)

    With ``domain="members"``, sums leave out each j for which one of the two pairs is not in its subgraph.

    Args:
        merged: which terms are merged, one of ``FOLKLORE``.
        options: see ``GINParts``.
        bias: whether the linear maps of MLPs have biases; A and B always have them.
    """

    takes_edges: ClassVar[bool] = True

    def __init__(
        self, in_channels: int, out_channels: int, merged: str = "own+folklore+swap_folklore", **options: Unpack[BaseEncoderOptions]
    ) -> None:
        super().__init__(in_channels, "own+folklore")  # there is nothing to mix
        self.parts = tuple(term.name for term in MERGED[merged].others)
        self.along, self.across = (nn.Linear(in_channels, in_channels) for _ in range(2))
        gin = GINParts(in_channels, out_channels, **options)
        self.mlps = nn.ModuleList([gin.mlp() for _ in self.parts])
        self.eps = gin.eps(len(self.parts))
        encoders = [gin.edges() for _ in self.parts]
        self.edge_encoders = nn.ModuleList([encoder for encoder in encoders if encoder is not None])

    def reset_own(self) -> None:
        """The epsilons are 0 again."""
        self.eps.zero_()

    def forward(self, n: Neighbourhood) -> Float[Tensor, "rows channels"]:
        """Update the rows."""
        values = [mlp(x, n.rows) for mlp, x in zip(self.mlps, self._collected(n), strict=True)]
        return values[0] if len(values) == 1 else values[0] + values[1]

    def _collected(self, n: Neighbourhood) -> Sequence[Float[Tensor, "rows channels"]]:
        """The inputs of the MLPs. B is applied to pairs of neighbours only, so its values and all biases are features of edges, and messages are
        those of GINE."""
        bag, along = n.state.bag, linear(n.source, self.along.weight)
        tables = [self.across(bag.wiring.pairs_of_edges(ALONG[part])(n.source)) + self.along.bias for part in self.parts]
        if self.edge_encoders:
            tables = [table + encode_edges(encoder, n.edge_attr) for table, encoder in zip(tables, self.edge_encoders, strict=True)]
        everyone = not n.state.masked and bag.domain == "all" and bag.edge_weight is None and bag.missing is None
        if everyone and (kernels := kernels_for(along)) is not None:
            edges = [kernel_edges(bag, ALONG[part], n.where) for part in self.parts]
            messages = [PassedMessages(*parts) for parts in zip(edges, tables, self.eps.split(1), strict=True)]
            done: tuple[Tensor, ...] = kernels.pass_messages(n.own, along, messages)
            return done
        collected = []
        for part, table, eps in zip(self.parts, tables, self.eps.split(1), strict=True):
            maps = bag.wiring.folklore(ALONG[part], n.where, n.state.masked)
            source = maps.from_subgraph if part == "folklore" else maps.from_node
            collected.append(own_and_sum(n.own, maps.into_targets((source(along) + maps.from_edges(table)).relu()), eps))
        return collected


class PyGConv(BaseEncoder):
    """Any PyG convolution, applied to the disjoint union of all subgraphs. This is slow, but works for every convolution.

    Args:
        out_channels: number of channels of the output.
        make: function that makes the convolution, given the numbers of input and output channels, and ``edge_dim`` if there are edge
            features.
        edge_dim, edge_encoder: see ``MessageOptions``.
    """

    takes_edges: ClassVar[bool] = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        merged: str = "own+local",
        *,
        make: Callable[..., nn.Module],
        edge_dim: int | None = None,
        edge_encoder: EncoderSpec = None,
        **_: object,
    ) -> None:
        super().__init__(in_channels, merged)
        if len(MERGED[merged].others) > 1:
            raise ValueError("separate weights for messages from roots need a native conv: 'gin', 'gine', 'gcn' or 'graphconv'.")
        self.with_edges = edge_dim is not None or edge_encoder is not None
        edge_dim = edge_dim or in_channels
        self.edge_encoder = make_edge_encoder(edge_encoder, None, edge_dim)
        try:
            self.conv = make(in_channels, out_channels, **({"edge_dim": edge_dim} if self.with_edges else {}))
        except (TypeError, ValueError, AssertionError) as error:
            what = "the numbers of channels and edge_dim" if self.with_edges else "the numbers of channels"
            raise ValueError(f"conv {make!r} cannot be made from {what} alone ({error}); give a function that makes it.") from None
        for layer in self.conv.modules():
            if isinstance(layer, pyg.MessagePassing):
                layer.explain = False  # its edges are those of all subgraphs, so the model sets the mask and not the explainer

    def forward(self, n: Neighbourhood) -> Float[Tensor, "rows channels"]:
        """Update all rows, and select the requested ones."""
        everywhere = n.state.bag.wiring.messages(n.neighbours)
        edge_index = torch.stack([everywhere.from_rows.index, everywhere.into_targets.index_t])
        args = [n.source, edge_index]
        if self.with_edges:
            args.append(everywhere.from_edges(encode_edges(self.edge_encoder or nn.Identity(), n.edge_attr)))
        out: Tensor = self._explained(args, everywhere, n.state.bag) if n.state.bag.edge_weight is not None else self.conv(*args)
        return out if n.where == "off" else out.index_select(0, n.state.bag.wiring.root_row)

    def _explained(self, args: list[Tensor], everywhere: Messages, bag: SubgraphBag) -> Tensor:
        """The convolution with edge weights, which PyG's layers take as a mask."""
        assert bag.edge_weight is not None
        layers = [module for module in self.conv.modules() if isinstance(module, pyg.MessagePassing)]
        for layer in layers:
            layer.explain = True
            layer._edge_mask = bag.edge_weight[everywhere.from_edges.index]
            layer._loop_mask, layer._apply_sigmoid = args[1][0] != args[1][1], False
        try:
            out: Tensor = self.conv(*args)
        finally:
            for layer in layers:
                layer.explain, layer._edge_mask = False, None
        return out


def make_conv(conv: Conv, in_channels: int, out_channels: int, merged: str, **options: Unpack[BaseEncoderOptions]) -> BaseEncoder:
    """Make a base encoder: one of ours by name, or any PyG convolution by its class or class name.

    Args:
        conv: a name, a class, or a function that makes a PyG convolution.
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        merged: which terms are merged, one of ``MERGED``.
        options: see ``BaseEncoderOptions``.
    """
    if merged in FOLKLORE:
        if str(conv).lower() not in ("gin", "gine"):
            raise ValueError(f"'{merged}' needs conv='gin', got conv={conv!r}.")
        return Folklore(in_channels, out_channels, merged, **options)
    has_edges = options.get("edge_dim") is not None or options.get("edge_encoder") is not None
    if isinstance(conv, str) and conv in CONVS:
        kind = CONVS[conv]
        if has_edges and not kind.takes_edges:
            raise ValueError(f"conv '{conv}' takes no edge features, got edge_dim or edge_encoder; use conv='gin'.")
        if conv.lower() == "gine" and not has_edges:
            raise ValueError("conv 'gine' needs edge features: give edge_dim or edge_encoder, or use conv='gin'.")
        ours: Callable[..., BaseEncoder] = kind
        return ours(in_channels, out_channels, merged, **options)
    if isinstance(conv, nn.Module):
        raise ValueError(
            f"conv is the module {conv!r}, expected its class or a function, because every layer makes its own module."
        )
    make = getattr(pyg, conv, None) if isinstance(conv, str) else conv
    if not callable(make) or (isinstance(conv, str) and not (isinstance(make, type) and issubclass(make, nn.Module))):
        raise ValueError(f"conv is '{conv}', expected {', '.join(map(repr, CONVS))}, a class of torch_geometric.nn or its name.")
    if not options.get("bias", True):
        raise ValueError(f"conv {conv!r} has its own biases; for a layer without biases use {', '.join(map(repr, CONVS))}.")
    return PyGConv(in_channels, out_channels, merged, make=make, **options)
