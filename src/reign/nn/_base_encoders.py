"""Base encoders: message passing in all subgraphs at once, over the edges of the one shared graph.

An encoder sees a ``Neighbourhood``: the values it updates (``own``) and ways to sum over their neighbours. Where that is
(nodes of subgraphs, nodes of the graph, roots alone) makes no difference to it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

from reign._validate import kind_of
from reign.bags import Messages, Neighbours, Where
from reign.nn._encoders import EncoderSpec, make_encoder
from reign.nn._mlp import MLP, Activation
from reign.nn._state import State
from reign.nn._terms import TERMS

# how a base encoder merges a term with the sum of the same over neighbours: (own, sums over neighbours, which neighbours)
MERGED: dict[str, tuple[str, tuple[str, ...], Neighbours]] = {
    "own+local": ("own", ("local",), "Ak"),
    "own+local_others+root_msg": ("own", ("local_others", "root_msg"), "Ak"),
    "own+swap_local": ("own", ("swap_local",), "swap"),
    "needle+needle_msg": ("needle", ("needle_msg",), "nodes"),
    "needle+needle_msg@agg": ("needle", ("needle_msg@agg",), "agg"),
}


@dataclass
class Neighbourhood:
    """The rows an encoder updates, and their neighbours, for one of the merged pairs of terms above."""

    state: State
    merged: str
    where: Where
    edge_attr: Tensor | None
    rows: Tensor | None  # that inner norms look at

    @property
    def own(self) -> Tensor:
        """The values to update."""
        return self.state.get(TERMS[MERGED[self.merged][0]], self.where)

    @property
    def source(self) -> Tensor:
        """All values that messages can come from."""
        return self.state.get(TERMS[MERGED[self.merged][0]])

    @property
    def sums(self) -> list[Tensor]:
        """The plain sums over neighbours."""
        return [self.state.get(TERMS[name], self.where) for name in MERGED[self.merged][1]]

    @property
    def messages(self) -> Messages:
        """Message passing in two steps."""
        return self.state.bag.wiring.messages(MERGED[self.merged][2], self.where)

    def collect(self, message: Tensor) -> list[Tensor]:
        """Sums of messages; with other weights for those from roots, sums of the others and of those."""
        messages = self.messages
        if len(MERGED[self.merged][1]) == 1:
            return [messages.into_targets(message)]
        bag = self.state.bag
        source = messages.from_rows.index
        from_root = (source == bag.wiring.root_row[bag.sub[source]])[:, None]
        return [messages.into_targets(message * ~from_root), messages.into_targets(message * from_root)]


class BaseEncoder(nn.Module):
    """A base encoder. ``mix`` holds the separate weights of messages from roots, where an encoder has such."""

    takes_edges = False

    def __init__(self, in_channels: int, merged: str) -> None:
        super().__init__()
        parts = len(MERGED[merged][1])
        self.mix = nn.ModuleList([nn.Linear(in_channels, in_channels, bias=False) for _ in range(parts)] if parts > 1 else [])

    def gather(self, sums: list[Tensor]) -> Tensor:
        """One sum over neighbours out of one or several."""
        if not self.mix:
            return sums[0]
        return torch.stack([mix(part) for mix, part in zip(self.mix, sums, strict=True)]).sum(0)


class GraphConv(BaseEncoder):
    r"""Morris et al. 2019: :math:`W_1 x_i + W_2 \sum_{j \sim i} x_j`."""

    def __init__(self, in_channels: int, out_channels: int, merged: str = "own+local", **_: object) -> None:
        super().__init__(in_channels, merged)
        self.mix = nn.ModuleList()
        self.lin_own = nn.Linear(in_channels, out_channels)
        names = MERGED[merged][1]
        self.lin_sums = nn.ModuleList([nn.Linear(in_channels, out_channels, bias=False) for _ in names])

    def forward(self, n: Neighbourhood) -> Tensor:
        """Update the rows."""
        out: Tensor = self.lin_own(n.own)
        for lin, part in zip(self.lin_sums, n.sums, strict=True):
            out = out + lin(part)
        return out


class GIN(BaseEncoder):
    r"""Xu et al. 2019: :math:`\mathrm{MLP}((1 + \epsilon) x_i + \sum_{j \sim i} x_j)`.

    With edge features it is GINE (Hu et al. 2020): the messages are :math:`\mathrm{relu}(x_j + e_{ij})`.
    """

    takes_edges = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        merged: str = "own+local",
        *,
        edge_dim: int | None = None,
        edge_encoder: EncoderSpec = None,
        norm: str | None = "batch_norm",
        act: Activation = "relu",
        expansion: int = 1,
        train_eps: bool = True,
    ) -> None:
        super().__init__(in_channels, merged)
        self.mlp = MLP(in_channels, out_channels, hidden=expansion * out_channels, norm=norm, act=act)
        self.eps = nn.Parameter(torch.zeros(1), requires_grad=train_eps)
        self.edge_encoder = make_edge_encoder(edge_encoder, edge_dim, in_channels)

    def forward(self, n: Neighbourhood) -> Tensor:
        """Update the rows."""
        if self.edge_encoder is None:
            sums = n.sums
        else:
            edge = encode_edges(self.edge_encoder, n)
            messages = n.messages
            sums = n.collect((messages.from_rows(n.source) + messages.from_edges(edge)).relu())
        out: Tensor = self.mlp((1 + self.eps) * n.own + self.gather(sums), n.rows)
        return out


class GCN(BaseEncoder):
    r"""Kipf & Welling 2017: :math:`\sum_{j \in N(i) \cup \{i\}} W x_j / \sqrt{d_i d_j}`, :math:`d` counting i itself."""

    def __init__(self, in_channels: int, out_channels: int, merged: str = "own+local", **_: object) -> None:
        super().__init__(in_channels, merged)
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, n: Neighbourhood) -> Tensor:
        """Update the rows."""
        wiring = n.state.bag.wiring
        everywhere = wiring.messages(MERGED[n.merged][2])
        scale = (everywhere.into_targets(_no_loops(everywhere).to(n.own.dtype)) + 1).rsqrt()  # at every row
        here, targets = (scale, None) if n.where == "off" else (scale.index_select(0, wiring.root_row), wiring.root_row)
        sums = n.collect(n.messages.from_rows(n.source * scale) * _no_loops(n.messages, targets))
        out: Tensor = self.lin(here * (self.gather(sums) + here * n.own)) + self.bias
        return out


def _no_loops(messages: Messages, targets: Tensor | None = None) -> Tensor:
    """Which messages go to another row than they come from; ``targets`` are the rows of the targets, if these are few."""
    target = messages.into_targets.index_t
    return (messages.from_rows.index != (target if targets is None else targets[target]))[:, None]


class Expanded(BaseEncoder):
    """Any PyG convolution, on the disjoint union of all subgraphs: slow, but universal."""

    takes_edges = True

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
        if len(MERGED[merged][1]) > 1:
            raise ValueError("other weights for messages from roots need a native conv: 'gin', 'gine', 'gcn' or 'graphconv'.")
        self.with_edges = edge_dim is not None or edge_encoder is not None
        edge_dim = edge_dim or in_channels
        self.edge_encoder = make_edge_encoder(edge_encoder, None, edge_dim)
        try:
            self.conv = make(in_channels, out_channels, **({"edge_dim": edge_dim} if self.with_edges else {}))
        except (TypeError, ValueError, AssertionError) as error:
            what = "channels in and out and edge_dim" if self.with_edges else "channels in and out"
            raise ValueError(f"conv {make!r} cannot be made from {what} alone ({error}); give a function that makes it.") from None

    def forward(self, n: Neighbourhood) -> Tensor:
        """Update all rows, and pick those asked for."""
        everywhere = n.state.bag.wiring.messages(MERGED[n.merged][2])
        edge_index = torch.stack([everywhere.from_rows.index, everywhere.into_targets.index_t])
        args = [n.source, edge_index]
        if self.with_edges:
            args.append(everywhere.from_edges(encode_edges(self.edge_encoder or nn.Identity(), n)))
        out: Tensor = self.conv(*args)
        return out if n.where == "off" else out.index_select(0, n.state.bag.wiring.root_row)


def make_edge_encoder(spec: EncoderSpec, edge_dim: int | None, channels: int) -> nn.Module | None:
    """An encoder of edge features of its own for each base encoder."""
    if isinstance(spec, nn.Module):
        raise ValueError(
            "edge_encoder is a module, but every base encoder needs one of its own, for its own number of channels; give a function that "
            "makes one, as edge_encoder=lambda channels: ..."
        )
    return make_encoder(spec, edge_dim, channels)


def encode_edges(encoder: nn.Module, n: Neighbourhood) -> Tensor:
    """Edge features as vectors."""
    given = n.edge_attr
    if given is None:
        raise ValueError("this model was made for edge features (edge_dim or edge_encoder), got edge_attr=None.")
    if isinstance(encoder, nn.Linear) and (
        not given.is_floating_point() or given.dim() != 2 or given.size(1) != encoder.in_features
    ):
        raise ValueError(
            f"edge_attr is {kind_of(given)}, expected floating-point numbers of shape (edges, {encoder.in_features}); for types give "
            "edge_encoder=<their number>."
        )
    return encoder(given)


CONVS: dict[str, type[BaseEncoder]] = {"gin": GIN, "gine": GIN, "gcn": GCN, "graphconv": GraphConv}


def make_conv(
    conv: str | Callable[..., nn.Module], in_channels: int, out_channels: int, merged: str, **options: object
) -> BaseEncoder:
    """A base encoder by name: one of ours, or any convolution of PyG by its class name or as a class."""
    has_edges = options.get("edge_dim") is not None or options.get("edge_encoder") is not None
    if isinstance(conv, str) and conv.lower() in CONVS:
        kind = CONVS[conv.lower()]
        if has_edges and not kind.takes_edges:
            raise ValueError(f"conv '{conv}' takes no edge features, got edge_dim or edge_encoder; use conv='gin'.")
        if conv.lower() == "gine" and not has_edges:
            raise ValueError("conv 'gine' needs edge features: give edge_dim or edge_encoder, or use conv='gin'.")
        return kind(in_channels, out_channels, merged, **options)  # type: ignore[call-arg, arg-type]
    if isinstance(conv, nn.Module):
        raise ValueError(f"conv is the module {conv!r}, expected its class or a function: every layer makes its own.")
    make = getattr(pyg, conv, None) if isinstance(conv, str) else conv
    if make is None or not callable(make):
        raise ValueError(f"conv is '{conv}', expected {', '.join(map(repr, CONVS))}, a class of torch_geometric.nn or its name.")
    return Expanded(in_channels, out_channels, merged, make=make, **options)  # type: ignore[arg-type]
