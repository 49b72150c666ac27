"""Local folklore message passing: each message is made from two pairs, and the messages are then summed."""

from collections.abc import Sequence
from typing import ClassVar, Unpack

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from reign.bags import Neighbours, narrow_edges
from reign.kernels import kernels_for
from reign.nn._base_encoders import BaseEncoder
from reign.nn._edge_encoders import encode_edges
from reign.nn._gin_parts import GINParts, own_and_sum
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
        values = [mlp(x, n.rows) for mlp, x in zip(self.mlps, self._collected(n), strict=True)]
        return values[0] if len(values) == 1 else values[0] + values[1]

    def _collected(self, n: Neighbourhood) -> Sequence[Float[Tensor, "rows channels"]]:
        """The inputs of the MLPs. B is applied to pairs of neighbours only, so its values and all biases are features of edges, and messages are
        those of GINE."""
        bag, along = n.state.bag, linear(n.source, self.along.weight)
        tables = [self.across(bag.wiring.pairs_of_edges(ALONG[part])(n.source)) + self.along.bias for part in self.parts]
        if self.edge_encoders:
            tables = [table + encode_edges(encoder, n.edge_attr) for table, encoder in zip(tables, self.edge_encoders, strict=True)]
        everyone = not n.state.masked and bag.domain == "all" and bag.edge_weight is None
        if everyone and (kernels := kernels_for(along)) is not None:
            edges = [narrow_edges(bag, ALONG[part], n.where) for part in self.parts]
            messages = [kernels.Messages(*parts) for parts in zip(edges, tables, self.eps.split(1), strict=True)]
            done: tuple[Tensor, ...] = kernels.pass_messages(n.own, along, messages)
            return done
        found = []
        for part, table, eps in zip(self.parts, tables, self.eps.split(1), strict=True):
            maps = bag.wiring.folklore(ALONG[part], n.where, n.state.masked)
            source = maps.from_subgraph if part == "folklore" else maps.from_node
            found.append(own_and_sum(n.own, maps.into_targets((source(along) + maps.from_edges(table)).relu()), eps))
        return found
