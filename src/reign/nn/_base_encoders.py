"""Base encoders: message passing in all subgraphs at once, over the edges of the one shared graph."""

from typing import ClassVar, Unpack

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from reign.bags import Messages
from reign.nn._edge_encoders import encode_edges
from reign.nn._gin_parts import GINParts, own_and_sum
from reign.nn._messages import collect_in_kernels
from reign.nn._neighbourhood import MERGED, Neighbourhood
from reign.nn._options import BaseEncoderOptions
from reign.nn._reset import Resettable
from reign.registry import Registry


class BaseEncoder(Resettable):
    """A base encoder: message passing that runs in all subgraphs, or on the graph. If messages from roots have their own weights, ``mix``
    holds one linear map for each sum of messages.

    Args:
        in_channels: number of channels of the input.
        merged: which terms are merged, one of ``MERGED``.
    """

    takes_edges: ClassVar[bool] = False
    """Whether the encoder uses edge features."""

    def __init__(self, in_channels: int, merged: str) -> None:
        super().__init__()
        parts = len(MERGED[merged][1])
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
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        merged: which terms are merged, one of ``MERGED``.
        options: see ``BaseEncoderOptions``.
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
        if (done := collect_in_kernels(self, n)) is not None:
            return done
        if self.edge_encoder is None:
            sums = n.sums
        else:
            edge = encode_edges(self.edge_encoder, n.edge_attr)
            messages = n.messages
            sums = n.collect((messages.from_rows(n.source) + messages.from_edges(edge)).relu())
        return own_and_sum(n.own, self.gather(sums), self.eps)


@CONVS.register("gcn")
class GCN(BaseEncoder):
    r"""GCN (Kipf & Welling 2017): :math:`\sum_{j \in N(i) \cup \{i\}} W x_j / \sqrt{d_i d_j}`, where the degree :math:`d_i` counts i itself.

    Args:
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        merged: which terms are merged, one of ``MERGED``.
        options: only ``bias`` is used: whether to add a bias.
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

    Args:
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        merged: which terms are merged, one of ``MERGED``.
        options: only ``bias`` is used: whether to add a bias.
    """

    def __init__(
        self, in_channels: int, out_channels: int, merged: str = "own+local", **options: Unpack[BaseEncoderOptions]
    ) -> None:
        super().__init__(in_channels, merged)
        self.mix = nn.ModuleList()
        self.lin_own = nn.Linear(in_channels, out_channels, bias=options.get("bias", True))
        names = MERGED[merged][1]
        self.lin_sums = nn.ModuleList([nn.Linear(in_channels, out_channels, bias=False) for _ in names])

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
