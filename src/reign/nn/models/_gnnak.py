"""GNN-As-Kernel (Zhao et al. 2022): a network in every ego net computes a new vector for the root of that ego net."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Literal, Unpack, cast

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

import reign.policies as policies
from reign._validate import check, check_count, check_probability
from reign.bags import Domain, SubgraphBag
from reign.nn._catalogue import MODELS
from reign.nn._describe import aligned, latex_sum, slot_formulas
from reign.nn._encoders import EncoderSpec, encode_edges, lookup, make_edge_encoder
from reign.nn._layer import SubgraphConv
from reign.nn._mlp import MLP, Activation, Resettable, make_act, make_norm, normalise, num_parameters
from reign.nn._model import Model, SubgraphGNN
from reign.nn._options import Conv, ConvOptions, EncoderOptions, LayerOptions, MemberModelOptions
from reign.nn._pooling import RootPooling
from reign.nn._state import Aggregation, State
from reign.nn._terms import TERMS
from reign.nn.models._ds import DSConv
from reign.policies import EgoNets, Policy, Sampled

# -- the block -----------------------------------------------------------------------------------------------------------


AKCombine = Literal["sum", "cat", "linear"]


class _Block(Resettable):
    """What the blocks share: marks in front of their input, and how they are described.

    Args:
        in_channels: number of channels of the input.
        aggregation: "sum" or "mean" over the nodes of a subgraph, and over subgraphs.
        act, norm, domain, conv, edge_dim, edge_encoder, expansion, train_eps: see ``LayerOptions``.
    """

    in_channels: int
    out_channels: int
    marks: int
    aggregation: Aggregation
    inner: nn.ModuleList
    mix: nn.Linear | None
    act: nn.Module
    _terms: list[str]  # centroid, subgraph and context as terms

    def _marked(self, h: Float[Tensor, "pairs channels"], bag: SubgraphBag) -> Float[Tensor, "pairs _"]:
        if not self.marks:
            return h
        assert bag.mark is not None
        return torch.cat([bag.mark.to(h.dtype), h], dim=1)

    def _latex(self, note: str) -> str:
        """[S], the convolutions in every subgraph, and [A], which combines centroid, subgraph and context."""
        inner = cast(SubgraphConv, self.inner[0])
        convs = latex_sum("x[k,i]", inner.act, slot_formulas(inner)) + rf" \quad [S],\ {len(self.inner)} \times"
        parts = [TERMS[name].formula.replace("sum", self.aggregation) for name in self._terms]
        pieces = [("Linear", parts)] if self.mix is not None else [("", [part]) for part in parts]
        return aligned([convs, latex_sum("x[k,i]", self.act, pieces) + r" \quad [A]" + note])

    def __repr__(self) -> str:
        terms = ["own+local"] * len(self.inner) + [" & ".join(self._terms)]
        return f"{type(self).__name__}({self.in_channels} -> {self.out_channels}, terms={terms})"


class AKConv(_Block):
    r"""A block [A] . [S] (eq. GNNAK and GNNAK-ctx): convolutions in every subgraph, then for each node its centroid, its subgraph
    and optionally its context.

    .. math:: x^k_i \leftarrow \phi ( h^i_i, \textstyle\sum_j h^i_j, \sum_j h^j_i ),
              \quad h = \gamma_L \circ \dots \circ \gamma_1 (A^k, X^k)

    The result does not depend on k, so the marks in the input of the model are lost; ``marks`` adds them again before the block.

    Args:
        out_channels: number of channels of the output; with a concatenation, that of its parts together.
        inner_layers: number L of convolutions in every subgraph.
        context: whether to add the sum over the subgraphs that a node is in.
        combine: phi, the concatenation ("cat"), the "sum" as in the proofs, or a linear map of the concatenation ("linear").
        end_norm: whether the combined parts are normalised.
        end_act: whether the block ends with the activation.
        marks: number of channels of marks that are put in front of the input.
        plus: largest hop distance of GNN-AK+'s distance embedding. It also switches on GNN-AK+'s gates and its transforms before
            pooling; None switches all of these off.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        inner_layers: int = 1,
        context: bool = False,
        combine: AKCombine = "cat",
        aggregation: Aggregation = "sum",
        end_norm: bool = False,
        end_act: bool = False,
        marks: int = 0,
        plus: int | None = None,
        act: Activation = "relu",
        norm: str | None = "batch_norm",
        domain: Domain = "all",
        **options: Unpack[ConvOptions],
    ) -> None:
        super().__init__()
        if aggregation not in ("sum", "mean"):
            raise ValueError(f"aggregation is {aggregation!r}, expected 'sum' or 'mean'.")
        if type(inner_layers) is not int or inner_layers < 1:
            raise ValueError(f"inner_layers is {inner_layers!r}, expected at least 1.")
        check("combine", combine, combine in ("sum", "cat", "linear"), "'sum', 'cat' or 'linear'")
        self.parts = self._terms = ["node_root", "node_readout", *(["needle"] if context else [])]
        width = out_channels // len(self.parts) if combine == "cat" else out_channels
        check(
            "out_channels",
            out_channels,
            combine != "cat" or out_channels == width * len(self.parts),
            f"a multiple of {len(self.parts)}, the number of parts that are concatenated",
        )
        self.in_channels, self.out_channels, self.domain = in_channels, out_channels, domain
        self.combine, self.aggregation, self.marks, self.max_distance = combine, aggregation, marks, plus
        widths = [marks + in_channels] + [width] * inner_layers
        self.inner = nn.ModuleList([DSConv(a, b, act=act, norm=norm, domain=domain, **options) for a, b in pairwise(widths)])
        self.mix = nn.Linear(len(self.parts) * width, out_channels) if combine == "linear" else None
        if plus is not None:
            self.distance = nn.Embedding(plus + 2, marks + in_channels)
            self.gates = nn.ModuleList([nn.Embedding(plus + 2, width) for _ in self.parts])
            self.before = nn.ModuleList([MLP(width, width, norm=norm, act=act) for _ in self.parts])
        self.norm = make_norm(norm if end_norm else None, out_channels)
        self.act = make_act(act if end_act else None)

    def forward(
        self, h: Float[Tensor, "pairs in_channels"], bag: SubgraphBag, edge_attr: Shaped[Tensor, "edges *channels"] | None = None
    ) -> Float[Tensor, "pairs out_channels"]:
        """Update the values of the pairs of a bag."""
        h = self._marked(h, bag)
        if self.max_distance is not None:
            h = h + lookup(self.distance.weight, bag.hops(self.max_distance))
        for layer in self.inner:
            h = layer(h, bag, edge_attr)
        values = [self._part(p, name, h, bag) for p, name in enumerate(self.parts)]
        out = torch.stack(values).sum(0) if self.combine == "sum" else torch.cat(values, dim=1)
        out = out if self.mix is None else self.mix(out)
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
        """Describe the convolutions in every subgraph, the equation that combines them, and the parameters of each part; see ``Model.describe``."""
        parts = [TERMS[name].formula.replace("x", "h").replace("sum", self.aggregation) for name in self.parts]
        if latex:
            return self._latex("" if self.max_distance is None else r",\ \text{transformed and gated by hop distance before}")
        lines = [
            f"{self!r}, {num_parameters(self):,} parameters",
            *(f"  h: {cast(DSConv, layer).describe()}" for layer in self.inner),
        ]
        if self.max_distance is not None:
            lines += [f"  {name}: + distance embedding, MLP and gate" for name in self.parts]
            added = num_parameters(self.distance, self.gates, self.before)
            lines.append(f"  distances, gates and transforms: {added:,} parameters")
        phi = {"linear": "Linear[", "cat": "[", "sum": "sum["}[self.combine]
        lines.append(
            f"  x[k,i] <- {type(self.act).__name__}({phi}{' , '.join(parts)}]), {num_parameters(self.mix):,} parameters, on nodes"
        )
        lines.append(f"  cost in addition to the convolutions: {len(self.parts)} passes over pairs, 2 passes over nodes")
        return "\n".join(lines)


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


# -- the block as published ----------------------------------------------------------------------------------------------


AKPart = Literal["centroid", "subgraph", "context"]
PARTS = {"centroid": "node_root", "subgraph": "node_readout", "context": "needle"}


class AKKernel(_Block):
    r"""A block of GNN-AK as published. With vectors :math:`v_i` of nodes, and :math:`a^k_i` an embedding of the hop distance,

    .. math:: x^k_i &= [v_i, a^k_i], \quad x^k_i \leftarrow x^k_i + \sigma(\gamma(A^k, X^k))_i \quad \text{(L times)}, \quad
              x^k_i \leftarrow W x^k_i \\
              v_i &\leftarrow \sigma \big( M [ g_0 x^i_i, \textstyle\sum_j g_1 T_1(x^i_j), \sum_k g_2 T_2(x^k_i) ] \big)

    with gates :math:`g_p = \mathrm{sigmoid}(W_p a^k_i + b_p)`. Without an embedding there are no gates, and no map W.
    All inner layers share the encoder of edges.

    Args:
        out_channels: number of channels of the output.
        parts: which of the three parts "centroid", "subgraph" and "context" are used; the transforms T are applied only if there are several parts.
        combine: M, a linear map of the concatenation ("cat"), or a plain "sum".
        inner_layers: number L of layers in every subgraph.
        inner_residual: whether the input of an inner layer is added to its output.
        hop_channels: number of channels of the embedding of hop distances; 0 for none.
        marks: number of channels of marks that are put in front of the input.
        max_distance: greater hop distances count as this one.
        dropout: dropout probability after every inner layer, before transforms, before M, and of the vectors of nodes at the end.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        parts: Sequence[AKPart] = ("centroid", "subgraph"),
        combine: Literal["sum", "cat"] = "cat",
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
        self._terms = [PARTS[part] for part in parts]
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
        h = self._marked(h, bag)
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
        self, part: AKPart, h: Float[Tensor, "pairs channels"], hops: Int[Tensor, "pairs"] | None, bag: SubgraphBag
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
        """Describe the layers in every subgraph, the equation that combines the parts, and their parameters; see ``Model.describe``."""
        if latex:
            return self._latex(r",\ \text{parts transformed and gated as described}")
        formulas = [TERMS[name].formula.replace("x", "h").replace("sum", self.aggregation) for name in self._terms]
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


def _no_encoder(channels: int) -> nn.Module:
    """No encoder, because edge features are vectors already."""
    return nn.Identity()


# -- the models ----------------------------------------------------------------------------------------------------------


@MODELS.register("gnnak")
class GNNAK(SubgraphGNN):
    """GNN-AK: blocks of convolutions in every ego net, each followed by a combination of centroid and subgraph encodings.

    Args:
        hidden_channels: number of channels of the convolutions; with ``combine="cat"`` a block has as many for each part.
        num_layers: number of blocks.
        policy: any node-based policy.
        inner_layers: number of convolutions in a block.
        combine, aggregation, end_norm, end_act: see ``AKConv``.
        remark: whether marks are added before every block, and not only before the first.
        graph_pooling: "sum" or "mean" over nodes.
        domain: whether sums range over "all" nodes, as in this paper's formula, or over "members" of ego nets, as in the original.
    """

    needs_node_based = True
    wl_bound = "3-WL (Corollary: 3-WL upper-bounds node-based Subgraph GNNs)"
    linear_form: ClassVar[dict[str, Any]] = {"conv": "graphconv", "norm": None, "domain": "all"}
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
        combine: AKCombine = "cat",
        aggregation: Aggregation = "sum",
        end_norm: bool = False,
        end_act: bool = False,
        remark: bool = False,
        graph_pooling: Aggregation = "sum",
        domain: Domain = "all",
        **options: Unpack[MemberModelOptions],
    ) -> None:
        block = partial(
            AKConv,
            inner_layers=inner_layers,
            context=self.context,
            combine=combine,
            aggregation=aggregation,
            end_norm=end_norm,
            end_act=end_act,
            plus=self._max_distance(policy),
        )
        if combine == "cat":
            check_count("num_layers", num_layers)
            widths = options.get("widths") or [hidden_channels] * num_layers
            if isinstance(widths, list | tuple) and len(widths) == num_layers and all(type(width) is int for width in widths):
                options["widths"] = [
                    (3 if self.context else 2) * width for width in widths
                ]  # others are refused below, as they are
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
    """GNN-AK-ctx: GNN-AK with the context, which is the sum over the subgraphs that a node is in."""

    context = True


@MODELS.register("gnnakplus", "GNN-AK+")
class GNNAKPlus(GNNAKctx):
    """GNN-AK+: GNN-AK with the context, a hop-distance embedding in every block, gates on centroid, subgraph and context that depend on
    the hop distance, transforms before pooling, a linear map, and means over members."""

    wl_bound = Model.wl_bound
    linear_form: ClassVar[dict[str, Any]] = {}
    defaults: ClassVar[dict[str, object]] = {
        "combine": "linear",
        "aggregation": "mean",
        "end_norm": True,
        "end_act": True,
        "graph_pooling": "mean",
        "domain": "members",
    }

    def _max_distance(self, policy: str | Policy) -> int:
        made = policies.policy(policy)
        made = made.policy if isinstance(made, Sampled) else made
        return made.num_hops if isinstance(made, EgoNets) else 5
