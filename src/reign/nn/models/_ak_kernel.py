"""The block of GNN-As-Kernel as published: a network with residual connections in every ego net, then its gated and transformed parts."""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from reign._validate import check, check_probability
from reign.bags import Domain, SubgraphBag
from reign.nn._describe import aligned, latex_sum, slot_formulas
from reign.nn._encoders import EncoderSpec, encode_edges, lookup, make_edge_encoder
from reign.nn._layer import SubgraphConv
from reign.nn._mlp import Activation, Resettable, make_act, make_norm, normalise, num_parameters
from reign.nn._options import Conv, EncoderOptions
from reign.nn._state import Aggregation, State
from reign.nn._terms import TERMS
from reign.nn.models._gnnak import Combine

Part = Literal["centroid", "subgraph", "context"]
PARTS = {"centroid": "node_root", "subgraph": "node_readout", "context": "needle"}


class AKKernel(Resettable):
    r"""A block of GNN-AK as published. With vectors :math:`v_i` of nodes, and :math:`a^k_i` an embedding of the hop distance,

    .. math:: x^k_i &= [v_i, a^k_i], \quad x^k_i \leftarrow x^k_i + \sigma(\gamma(A^k, X^k))_i \quad \text{(L times)}, \quad
              x^k_i \leftarrow W x^k_i \\
              v_i &\leftarrow \sigma \big( M [ g_0 x^i_i, \textstyle\sum_j g_1 T_1(x^i_j), \sum_k g_2 T_2(x^k_i) ] \big)

    with gates :math:`g_p = \mathrm{sigmoid}(W_p a^k_i + b_p)`. Without an embedding there are no gates, and no map W.

    Args:
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        parts: which of the three parts are used; the transforms T are applied only if there are several parts.
        combine: M, a linear map of the concatenation ("cat"), or a plain "sum".
        aggregation: "sum" or "mean" over the nodes of a subgraph, and over subgraphs.
        inner_layers: number L of layers in every subgraph.
        inner_residual: whether the input of an inner layer is added to its output.
        hop_channels: number of channels of the embedding of hop distances; 0 for none.
        marks: number of channels of marks that are put in front of the input.
        max_distance: greater hop distances count as this one.
        dropout: dropout probability after every inner layer, before transforms, before M, and of the vectors of nodes at the end.
        act, norm: see ``TransformOptions``.
        domain: see ``DomainOptions``.
        conv, edge_dim, edge_encoder, expansion, train_eps: see ``ConvOptions``. All inner layers share the encoder of edges.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        parts: Sequence[Part] = ("centroid", "subgraph"),
        combine: Combine = "cat",
        aggregation: Aggregation = "sum",
        inner_layers: int = 1,
        inner_residual: bool = True,
        hop_channels: int = 0,
        marks: int = 0,
        max_distance: int = 3,
        dropout: float = 0.0,
        act: Activation = "relu",
        norm: str | None = "batch_norm",
        domain: Domain = "members",
        conv: Conv = "gin",
        edge_dim: int | None = None,
        edge_encoder: EncoderSpec = None,
        expansion: int = 1,
        train_eps: bool = True,
    ) -> None:
        super().__init__()
        good = not isinstance(parts, str) and 0 < len(parts) == len(set(parts)) and set(parts) <= set(PARTS)
        check("parts", parts, good, f"one or several of {', '.join(map(repr, PARTS))}")
        check("combine", combine, combine in ("sum", "cat"), "'sum' or 'cat'")
        check("aggregation", aggregation, aggregation in ("sum", "mean"), "'sum' or 'mean'")
        check("inner_layers", inner_layers, type(inner_layers) is int and inner_layers >= 1, "at least 1")
        check_probability("dropout", dropout)
        check("hop_channels", hop_channels, type(hop_channels) is int and hop_channels >= 0, "at least 0")
        self.in_channels, self.out_channels, self.domain, self.max_distance = in_channels, out_channels, domain, max_distance
        self.parts, self.combine, self.aggregation, self.inner_residual = tuple(parts), combine, aggregation, inner_residual
        self.marks, width, bias = marks, marks + in_channels + hop_channels, norm is None
        self.edge_encoder = make_edge_encoder(edge_encoder, edge_dim, width)
        options: EncoderOptions = {"conv": conv, "act": act, "norm": norm, "expansion": expansion, "train_eps": train_eps}
        options["edge_encoder"] = None if self.edge_encoder is None else _no_encoder
        self.inner = nn.ModuleList(
            SubgraphConv(width, width, ["own+local"], domain=domain, bias=bias, **options) for _ in range(inner_layers)
        )
        rows = max_distance + (2 if domain == "all" else 1)  # with members only, no row lies beyond the largest distance
        self.hops = nn.Embedding(rows, hop_channels) if hop_channels else None
        self.back = nn.Linear(width, out_channels) if width != out_channels else None
        self.gates = nn.ModuleDict({part: nn.Linear(hop_channels, out_channels) for part in parts} if hop_channels else {})
        before = [part for part in parts if part != "centroid" and len(parts) > 1]
        self.transforms = nn.ModuleDict({part: nn.Linear(out_channels, out_channels, bias=bias) for part in before})
        self.transform_norms = nn.ModuleDict({part: make_norm(norm, out_channels) for part in before})
        self.mix = nn.Linear(len(parts) * out_channels, out_channels, bias=bias) if combine == "cat" else None
        self.norm, self.act, self.dropout = make_norm(norm, out_channels), make_act(act), nn.Dropout(dropout)

    def forward(
        self, h: Float[Tensor, "pairs in_channels"], bag: SubgraphBag, edge_attr: Shaped[Tensor, "edges *channels"] | None = None
    ) -> Float[Tensor, "pairs out_channels"]:
        """Update the values of the pairs of a bag."""
        edge_attr = bag.graph.edge_attr if edge_attr is None else edge_attr
        if self.edge_encoder is not None:
            edge_attr = encode_edges(self.edge_encoder, edge_attr)
        if self.marks:
            assert bag.mark is not None
            h = torch.cat([bag.mark.to(h.dtype), h], dim=1)
        hops = None
        if self.hops is not None:
            hops = bag.hops(self.max_distance).clamp(max=self.hops.num_embeddings - 1)
            h = torch.cat([h, lookup(self.hops.weight, hops)], dim=1)
        for layer in self.inner:
            new = self.dropout(layer(h, bag, edge_attr))
            h = h + new if self.inner_residual else new
        h = h if self.back is None else self.back(h)
        values = [self._part(part, h, hops, bag) for part in self.parts]
        out = torch.stack(values).sum(0) if self.mix is None else self.mix(self.dropout(torch.cat(values, dim=1)))
        return bag.wiring.to_node.t(self.dropout(self.act(normalise(self.norm, out, bag.real("node")))))

    def _part(
        self, part: Part, h: Float[Tensor, "pairs channels"], hops: Int[Tensor, "pairs"] | None, bag: SubgraphBag
    ) -> Float[Tensor, "nodes channels"]:
        """The centroid, subgraph or context of every node."""
        if part in self.transforms:
            rows = State(h, bag, self.domain).norm_rows("pair")
            h = self.act(normalise(self.transform_norms[part], self.transforms[part](self.dropout(h)), rows))
        if self.hops is not None:
            assert hops is not None
            h = h * lookup(torch.sigmoid(self.gates[part](self.hops.weight)), hops)
        term = TERMS[PARTS[part]]
        how: dict[str, Aggregation] = {} if part == "centroid" else {term.name: self.aggregation}
        return State(h, bag, self.domain, how).get(term)

    def describe(self, latex: bool = False) -> str:
        """Describe the layers in every subgraph, the equation that combines the parts, and their parameters.

        Args:
            latex: return only the equations, as LaTeX.
        """
        if latex:
            return self._latex()
        formulas = [TERMS[PARTS[part]].formula.replace("x", "h").replace("sum", self.aggregation) for part in self.parts]
        lines = [f"{self!r}, {num_parameters(self):,} parameters"]
        if self.hops is not None:
            lines.append(
                f"  h: with embedded hop distances, {num_parameters(self.hops, self.back):,} parameters including the map back"
            )
        lines += [f"  h: {'h + ' if self.inner_residual else ''}{layer.describe()}" for layer in self.inner]  # type: ignore[operator]
        for part in self.parts:
            size = num_parameters(*(group[part] for group in (self.transforms, self.transform_norms, self.gates) if part in group))
            lines.append(
                f"  {part}: {'transform' if part in self.transforms else 'no transform'}{', gate' if self.gates else ''}, {size:,} parameters"
            )
        phi = "Linear[" if self.mix is not None else "sum["
        lines.append(
            f"  x[k,i] <- {type(self.act).__name__}({phi}{' , '.join(formulas)}]), {num_parameters(self.mix):,} parameters, on nodes"
        )
        lines.append(f"  cost in addition to the convolutions: {2 * len(self.parts)} passes over pairs, 2 passes over nodes")
        return "\n".join(lines)

    def _latex(self) -> str:
        """[S], the layers in every subgraph, and [A], which combines centroid, subgraph and context."""
        inner = self.inner[0]
        assert isinstance(inner, SubgraphConv)
        convs = latex_sum("x[k,i]", inner.act, slot_formulas(inner)) + rf" \quad [S],\ {len(self.inner)} \times"
        parts = [TERMS[PARTS[part]].formula.replace("sum", self.aggregation) for part in self.parts]
        pieces = [("Linear", parts)] if self.mix is not None else [("", [part]) for part in parts]
        return aligned(
            [convs, latex_sum("x[k,i]", self.act, pieces) + r" \quad [A],\ \text{parts transformed and gated as described}"]
        )

    def __repr__(self) -> str:
        terms = ["own+local"] * len(self.inner) + [" & ".join(PARTS[part] for part in self.parts)]
        return f"{type(self).__name__}({self.in_channels} -> {self.out_channels}, terms={terms})"


def _no_encoder(channels: int) -> nn.Module:
    """No encoder, because edge features are vectors already."""
    return nn.Identity()
