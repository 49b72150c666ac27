"""The block of GNN-As-Kernel: a network in every ego net as the kernel of one layer on the graph."""

from collections.abc import Callable
from itertools import pairwise
from typing import Literal, Unpack, cast

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

import reign.policies as policies
from reign.bags import Domain, SubgraphBag
from reign.nn._describe import aligned, latex_sum, slot_formulas
from reign.nn._encoders import lookup
from reign.nn._mlp import MLP, Activation, Resettable, make_act, make_norm, normalise, num_parameters
from reign.nn._options import ConvOptions, LayerOptions
from reign.nn._state import Aggregation, State
from reign.nn._terms import TERMS
from reign.nn.models._ds_dss import DSConv
from reign.policies import Policy

Combine = Literal["sum", "cat"]


class AKConv(Resettable):
    r"""A block [A] . [S] (eq. GNNAK and GNNAK-ctx): convolutions in every subgraph, then for each node its centroid, its subgraph
    and optionally its context.

    .. math:: x^k_i \leftarrow \sigma \big( \phi ( h^i_i, \textstyle\sum_j h^i_j, \sum_j h^j_i ) \big),
              \quad h = \gamma_L \circ \dots \circ \gamma_1 (A^k, X^k)

    The result does not depend on k, so the marks in the input of the model are lost; ``marks`` adds them again before the block.

    Args:
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        inner_layers: number L of convolutions in every subgraph.
        context: whether to add the sum over the subgraphs that a node is in.
        combine: phi, a plain "sum" as in the proofs, or a linear map of the concatenation ("cat").
        aggregation: "sum" or "mean" over the nodes of a subgraph, and over subgraphs.
        marks: number of channels of marks that are put in front of the input.
        plus: largest hop distance of GNN-AK+'s distance embedding. It also switches on GNN-AK+'s gates and its transforms before
            pooling; None switches all of these off.
        act, norm: see ``TransformOptions``.
        domain: see ``DomainOptions``.
        options: see ``ConvOptions``.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        inner_layers: int = 1,
        context: bool = False,
        combine: Combine = "cat",
        aggregation: Aggregation = "mean",
        marks: int = 0,
        plus: int | None = None,
        act: Activation = "relu",
        norm: str | None = "batch_norm",
        domain: Domain = "members",
        **options: Unpack[ConvOptions],
    ) -> None:
        super().__init__()
        if aggregation not in ("sum", "mean"):
            raise ValueError(f"aggregation is {aggregation!r}, expected 'sum' or 'mean'.")
        if type(inner_layers) is not int or inner_layers < 1:
            raise ValueError(f"inner_layers is {inner_layers!r}, expected at least 1.")
        if combine not in ("sum", "cat"):
            raise ValueError(f"combine is {combine!r}, expected 'sum' or 'cat'.")
        self.in_channels, self.out_channels, self.domain = in_channels, out_channels, domain
        self.combine, self.aggregation, self.marks, self.max_distance = combine, aggregation, marks, plus
        widths = [marks + in_channels] + [out_channels] * inner_layers
        self.inner = nn.ModuleList([DSConv(a, b, act=act, norm=norm, domain=domain, **options) for a, b in pairwise(widths)])
        self.parts = ["node_root", "node_readout", *(["needle"] if context else [])]
        self.mix = nn.Linear(len(self.parts) * out_channels, out_channels) if combine == "cat" else None
        if plus is not None:
            self.distance = nn.Embedding(plus + 2, marks + in_channels)
            self.gates = nn.ModuleList([nn.Embedding(plus + 2, out_channels) for _ in self.parts])
            self.before = nn.ModuleList([MLP(out_channels, out_channels, norm=norm, act=act) for _ in self.parts])
        self.norm = make_norm(norm, out_channels)
        self.act = make_act(act)

    def forward(
        self, h: Float[Tensor, "pairs in_channels"], bag: SubgraphBag, edge_attr: Shaped[Tensor, "edges *channels"] | None = None
    ) -> Float[Tensor, "pairs out_channels"]:
        """Update the values of the pairs of a bag."""
        if self.marks:
            assert bag.mark is not None
            h = torch.cat([bag.mark.to(h.dtype), h], dim=1)
        if self.max_distance is not None:
            h = h + lookup(self.distance.weight, bag.hops(self.max_distance))
        for layer in self.inner:
            h = layer(h, bag, edge_attr)
        values = [self._part(p, name, h, bag) for p, name in enumerate(self.parts)]
        out = self.mix(torch.cat(values, dim=1)) if self.mix is not None else torch.stack(values).sum(0)
        return bag.wiring.to_node.t(self.act(normalise(self.norm, out, bag.real("node"))))

    def _part(self, p: int, name: str, h: Float[Tensor, "pairs channels"], bag: SubgraphBag) -> Float[Tensor, "nodes channels"]:
        """The centroid, subgraph or context of every node."""
        if self.max_distance is not None:
            rows = State(h, bag, self.domain).norm_rows("pair")
            gate = lookup(torch.sigmoid(cast(nn.Embedding, self.gates[p]).weight), bag.hops(self.max_distance))
            h = self.before[p](h, rows) * gate
        how: dict[str, Aggregation] = {} if name == "node_root" else {name: self.aggregation}
        return State(h, bag, self.domain, how).get(TERMS[name])

    def describe(self, latex: bool = False) -> str:
        """Describe the convolutions in every subgraph, the equation that combines them, and the parameters of each part.

        Args:
            latex: return only the equations, as LaTeX.
        """
        parts = [TERMS[name].formula.replace("x", "h").replace("sum", self.aggregation) for name in self.parts]
        if latex:
            return self._latex()
        lines = [
            f"{self!r}, {num_parameters(self):,} parameters",
            *(f"  h: {cast(DSConv, layer).describe()}" for layer in self.inner),
        ]
        if self.max_distance is not None:
            lines += [f"  {name}: + distance embedding, MLP and gate" for name in self.parts]
            added = num_parameters(self.distance, self.gates, self.before)
            lines.append(f"  distances, gates and transforms: {added:,} parameters")
        phi = "Linear[" if self.mix is not None else "["
        lines.append(
            f"  x[k,i] <- {type(self.act).__name__}({phi}{' , '.join(parts)}]), {num_parameters(self.mix):,} parameters, on nodes"
        )
        lines.append(f"  cost in addition to the convolutions: {len(self.parts)} passes over pairs, 2 passes over nodes")
        return "\n".join(lines)

    def _latex(self) -> str:
        """[S], the convolutions in every subgraph, and [A], which combines centroid, subgraph and context."""
        inner = cast(DSConv, self.inner[0])
        convs = latex_sum("x[k,i]", inner.act, slot_formulas(inner)) + rf" \quad [S],\ {len(self.inner)} \times"
        parts = [TERMS[name].formula.replace("sum", self.aggregation) for name in self.parts]
        pieces = [("Linear", parts)] if self.mix is not None else [("", [part]) for part in parts]
        note = "" if self.max_distance is None else r",\ \text{transformed and gated by hop distance before}"
        return aligned([convs, latex_sum("x[k,i]", self.act, pieces) + r" \quad [A]" + note])

    def __repr__(self) -> str:
        terms = ["own+local"] * len(self.inner) + [" & ".join(self.parts)]
        return f"{type(self).__name__}({self.in_channels} -> {self.out_channels}, terms={terms})"


def remarked(block: Callable[..., nn.Module], policy: str | Policy) -> Callable[..., nn.Module]:
    """A function that makes blocks, all but the first with the marks of a policy."""
    marks = policies.policy(policy).num_marks
    if not marks:
        raise ValueError(f"remark=True needs a policy with marks, got '{policy}'; use 'ego+:h' or 'nm'.")
    made = 0

    def layer(in_channels: int, out_channels: int, **options: Unpack[LayerOptions]) -> nn.Module:
        nonlocal made
        made += 1
        return block(in_channels, out_channels, marks=marks if made > 1 else 0, **options)

    return layer
