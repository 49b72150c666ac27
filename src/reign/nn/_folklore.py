"""Local folklore message passing: each message is made from two pairs, and the messages are then summed."""

from typing import ClassVar, Unpack

from jaxtyping import Float
from torch import Tensor, nn

from reign.bags import FolkloreMessages as Messages
from reign.bags import Neighbours
from reign.kernels import Segments, Sum, kernels_for
from reign.nn._base_encoders import BaseEncoder
from reign.nn._edge_encoders import encode_edges
from reign.nn._gin_parts import GINParts
from reign.nn._neighbourhood import MERGED, Neighbourhood
from reign.nn._options import BaseEncoderOptions

ALONG: dict[str, Neighbours] = {"folklore": "A", "swap_folklore": "swap"}
FOLKLORE = {name for name, (_, parts, _) in MERGED.items() if parts[0] in ALONG}


class Folklore(BaseEncoder):
    r"""Local 2-folklore message passing, along nodes, along subgraphs, or the sum of both (Zhang et al. 2024).

    .. math:: \mathrm{MLP}_1 \big( (1 + \epsilon_1) x^k_i + \textstyle\sum_{j \sim i} \mathrm{relu}(A x^k_j + B x^j_i + e_{ij}) \big)
              + \mathrm{MLP}_2 \big( (1 + \epsilon_2) x^k_i + \sum_{j \sim k} \mathrm{relu}(A x^j_i + B x^k_j + e_{kj}) \big)

    With ``domain="members"``, sums leave out each j for which one of the two pairs is not in its subgraph.

    Args:
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        merged: which terms are merged, one of ``FOLKLORE``.
        options: see ``BaseEncoderOptions``; A and B always have biases.
    """

    takes_edges: ClassVar[bool] = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        merged: str = "own+folklore+swap_folklore",
        **options: Unpack[BaseEncoderOptions],
    ) -> None:
        super().__init__(in_channels, "own+folklore")  # there is nothing to mix
        self.parts = MERGED[merged][1]
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
        along, across = self.along(n.source), self.across(n.source)
        out: Tensor | None = None
        for p, (part, mlp) in enumerate(zip(self.parts, self.mlps, strict=True)):
            messages = n.state.bag.wiring.folklore(ALONG[part], n.where, n.state.masked)
            first, second = (along, across) if part == "folklore" else (across, along)
            edges = encode_edges(self.edge_encoders[p], n.edge_attr) if self.edge_encoders else None
            value = mlp((1 + self.eps[p]) * n.own + _collected(first, second, edges, messages), n.rows)
            out = value if out is None else out + value
        assert out is not None
        return out


def _collected(
    first: Float[Tensor, "pairs channels"],
    second: Float[Tensor, "pairs channels"],
    edges: Float[Tensor, "edges channels"] | None,
    messages: Messages,
) -> Float[Tensor, "rows channels"]:
    """The sums of relu(first + second + edge) over messages."""
    a, b, e, into = messages
    if (kernels := kernels_for(first)) is not None and isinstance(into, Sum) and second.dtype == first.dtype:
        groups = (Segments(part.ptr_t, part.index_t) for part in (a, b, e))  # type: ignore[arg-type]
        pairings = kernels.Pairings(a.index, b.index, e.index, into.index_t, *groups, Segments(into.ptr, into.index))  # type: ignore[arg-type]
        done: Tensor = kernels.pair_messages(first, second, edges, pairings)
        return done
    message = a(first) + b(second)
    return into((message if edges is None else message + e(edges)).relu())
