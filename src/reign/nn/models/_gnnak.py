"""GNN-As-Kernel (Zhao et al. 2022): a network in every ego net computes a new vector for the root of that ego net."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Literal, Unpack, cast

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

import reign.policies as policies
from reign.bags import Domain, SubgraphBag
from reign.nn._catalogue import MODELS
from reign.nn._describe import aligned, latex_sum, slot_formulas
from reign.nn._encoders import lookup
from reign.nn._mlp import MLP, Activation, Resettable, make_act, make_norm, normalise, num_parameters
from reign.nn._model import Model, SubgraphGNN
from reign.nn._options import ConvOptions, LayerOptions, MemberModelOptions
from reign.nn._pooling import RootPooling
from reign.nn._state import Aggregation, State
from reign.nn._terms import TERMS
from reign.nn.models._ds import DSConv
from reign.policies import EgoNets, Policy

# -- the block -----------------------------------------------------------------------------------------------------------


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


# -- the models ----------------------------------------------------------------------------------------------------------


@MODELS.register("gnnak")
class GNNAK(SubgraphGNN):
    """GNN-AK: blocks of convolutions in every ego net, each followed by a combination of centroid and subgraph encodings.

    Args:
        in_channels: number of channels of node features, after ``node_encoder`` if there is one.
        hidden_channels: number of channels of the layers.
        num_layers: number of blocks.
        out_channels: number of channels of the prediction; None gives the pooled vectors themselves.
        policy: any node-based policy.
        inner_layers: number of convolutions in a block.
        combine: "cat" (followed by a linear map), or a plain "sum" as in the paper's proofs.
        aggregation: "mean" or "sum" over the nodes of a subgraph, and over subgraphs.
        remark: whether marks are added before every block, and not only before the first.
        graph_pooling: "mean" or "sum" over nodes.
        domain: whether sums range over "members" of ego nets, as in the original, or over "all" nodes, as in this paper's formula.
        options: see ``MemberModelOptions``.
    """

    needs_node_based = True
    wl_bound = "3-WL (Corollary: 3-WL upper-bounds node-based Subgraph GNNs)"
    linear_form: ClassVar[dict[str, Any]] = {"conv": "graphconv", "norm": None, "domain": "all", "aggregation": "sum"}
    context: ClassVar[bool] = False
    """Whether to add the sum over the subgraphs that a node is in."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy = "ego:3",
        inner_layers: int = 1,
        combine: Combine = "cat",
        aggregation: Aggregation = "mean",
        remark: bool = False,
        graph_pooling: Aggregation = "mean",
        domain: Domain = "members",
        **options: Unpack[MemberModelOptions],
    ) -> None:
        block = partial(
            AKConv,
            inner_layers=inner_layers,
            context=self.context,
            combine=combine,
            aggregation=aggregation,
            plus=self._max_distance(policy),
        )
        options.setdefault("pooling", partial(RootPooling, roots=graph_pooling))
        layer = remarked(block, policy) if remark else block
        super().__init__(
            in_channels, hidden_channels, num_layers, out_channels, policy=policy, layer=layer, domain=domain, **options
        )

    def _max_distance(self, policy: str | Policy) -> int | None:
        """The largest hop distance that blocks distinguish; None if they do not use distances."""
        return None

    @classmethod
    def for_separation(cls, layers: int) -> dict[str, Any]:
        """One block with that many inner layers, and sums over all nodes, as in the paper's formula."""
        return {"num_layers": 1, "inner_layers": layers, "domain": "all"}


@MODELS.register("gnnakctx")
class GNNAKctx(GNNAK):
    """GNN-AK-ctx: GNN-AK with the context, which is the sum over the subgraphs that a node is in.

    Its arguments are those of ``GNNAK``.
    """

    context = True


@MODELS.register("gnnakplus", "GNN-AK+")
class GNNAKPlus(GNNAKctx):
    """GNN-AK+: GNN-AK with the context, a hop-distance embedding in every block, gates on centroid, subgraph and context that depend on
    the hop distance, and transforms before pooling.

    Its arguments are those of ``GNNAK``.
    """

    wl_bound = Model.wl_bound
    linear_form: ClassVar[dict[str, Any]] = {}

    def _max_distance(self, policy: str | Policy) -> int:
        made = policies.policy(policy)
        return made.num_hops if isinstance(made, EgoNets) else 5
