"""The engine behind every layer: a layer is a list of terms for all pairs, and optionally a second list for roots.

.. math:: x^k_i \\leftarrow \\sigma \\Big( \\sum_{t \\in \\text{terms}} f_t(t^k_i) \\Big), \\quad
          x^i_i \\leftarrow \\sigma \\Big( \\sum_{t \\in \\text{root terms}} g_t(t^i_i) \\Big)

Each term is transformed where its values live (on pairs, subgraphs, nodes or graphs) and broadcast once. If roots have their own weights,
their update is computed on the n root rows only. It then replaces the result of the first list there, or is added to it before the norm.
"""

from collections.abc import Sequence
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from reign._validate import check, kind_of
from reign.bags import Domain, SubgraphBag
from reign.nn._convs import make_conv
from reign.nn._describe import describe_conv
from reign.nn._encoders import EdgeAttr, EncoderSpec, make_edge_encoder
from reign.nn._mlp import MLP, Activation, Linear, make_act, make_norm
from reign.nn._options import BaseEncoderOptions, Bias, Conv, NormAt, RootNorms, Roots
from reign.nn._plan import update
from reign.nn._slots import EncoderSlot, Slot, TermLayer, TermSlot
from reign.nn._state import Aggregation, State
from reign.nn._terms import MERGED, term

Transform = Literal["mlp", "linear"]


class SubgraphConv(TermLayer):
    """A layer defined by a list of terms. It maps the values of a bag to new values.

    Args:
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        terms: names of terms (see ``reign.list_terms()``). A name such as "own+local" stands for terms merged by the base encoder.
        root_terms: names of terms for roots, which then have their own weights. If not given, roots are updated like all other pairs.
        roots: whether ``root_terms`` replace the terms of all pairs at the roots ("apart") or are added to them ("added").
        transform: transform of single terms: "mlp", as in the paper, or "linear".
        on_pairs: whether single terms are transformed at every pair and not only once where their values live. Norms then count
            every repetition.
        conv, edge_dim, edge_encoder, expansion, train_eps, act, domain: see ``LayerOptions``.
        edge_terms: whether single terms that sum along edges use edge features, too: their messages are then relu(x + e), as in GINE.
        aggregation: terms that take a "mean" in place of a "sum", for example {"needle": "mean"}.
        norm: "batch_norm", "layer_norm" or None. Norms are inside MLPs and after base encoders, or at the end if there are neither.
        norm_at: where the norms are: "terms" (as described above), "sum" (inside MLPs, and once after the sum of all terms) or "end"
            (only after the sum of all terms).
        bias: whether linear maps have biases; with "first" only the first term has one, because a sum needs only one bias.
        end_act: whether the layer ends with the activation.
        root_norms: whether norms inside the base encoders of roots take their statistics over the "roots", or over all "pairs", as
            the authors' code does.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        terms: Sequence[str],
        root_terms: Sequence[str] | None = None,
        *,
        roots: Roots = "apart",
        transform: Transform = "mlp",
        on_pairs: bool = False,
        conv: Conv = "gin",
        edge_dim: int | None = None,
        edge_encoder: EncoderSpec = None,
        aggregation: dict[str, Aggregation] | None = None,
        act: Activation = "relu",
        norm: str | None = "batch_norm",
        domain: Domain = "all",
        expansion: int = 1,
        train_eps: bool = True,
        norm_at: NormAt = "terms",
        bias: Bias = True,
        end_act: bool = True,
        root_norms: RootNorms = "roots",
        edge_terms: bool = False,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels, self.domain, self.roots = in_channels, out_channels, domain, roots
        self.aggregation = {term(name).name: how for name, how in (aggregation or {}).items()}
        check("transform", transform, transform in ("mlp", "linear"), "'mlp' or 'linear'")
        check("domain", domain, domain in ("all", "members"), "'all' or 'members'")
        check("norm_at", norm_at, norm_at in ("terms", "sum", "end"), "'terms', 'sum' or 'end'")
        check("root_norms", root_norms, root_norms in ("roots", "pairs"), "'roots' or 'pairs'")
        check("bias", bias, bias in (True, False, "first"), "True, False or 'first'")
        check(
            "roots", roots, roots == "apart" or (roots == "added" and root_terms is not None), "'apart', or 'added' with root_terms"
        )
        for name, how in self.aggregation.items():
            check(f"aggregation of '{name}'", how, how in ("sum", "mean"), "'sum' or 'mean'")
        for what, names in (("terms", terms), ("root_terms", root_terms)):
            valid = names is None or (not isinstance(names, str) and bool(names) and all(isinstance(name, str) for name in names))
            check(what, names, valid, "a list of at least one name, such as ['own', 'local']; see reign.list_terms()")
        self._check_encoders([*terms, *(root_terms or [])], conv, edge_dim is not None or edge_encoder is not None, edge_terms)

        inner = None if norm_at == "end" else norm

        def slot(place: int, name: str, on: bool = False) -> Slot:
            biased = bias is True or (bias == "first" and place == 0)
            if "+" in name:
                if name not in MERGED:
                    raise ValueError(f"'{name}' cannot be merged, expected one of {', '.join(map(repr, MERGED))}.")
                passes = MERGED[name].neighbours is not None  # without messages, edges have no effect
                options: BaseEncoderOptions = {
                    "edge_dim": edge_dim if passes else None,
                    "edge_encoder": edge_encoder if passes else None,
                    "norm": inner,
                    "act": act,
                    "expansion": expansion,
                    "train_eps": train_eps,
                    "bias": biased,
                }
                encoder = make_conv(
                    conv if passes or str(conv).lower() != "gine" else "gin", in_channels, out_channels, name, **options
                )
                outer = make_norm(norm if norm_at == "terms" else None, out_channels)
                return EncoderSlot(name, encoder, outer, everywhere=on and root_norms == "pairs")
            edges = make_edge_encoder(edge_encoder, edge_dim, in_channels) if edge_terms and term(name).along_edges else None
            if transform == "linear":
                return TermSlot(name, Linear(in_channels, out_channels, bias=biased), on_pairs, edges)
            return TermSlot(name, MLP(in_channels, out_channels, norm=inner, act=act, bias=biased), on_pairs, edges)

        self.terms = nn.ModuleList([slot(place, name) for place, name in enumerate(terms)])
        self.root_terms = (
            None if root_terms is None else nn.ModuleList([slot(place, name, on=True) for place, name in enumerate(root_terms)])
        )
        plain = transform == "linear" and not any("+" in name for name in [*terms, *(root_terms or [])])
        last = norm if plain or norm_at != "terms" else None
        self.norm = make_norm(last, out_channels)
        self.root_norm = None if root_terms is None or roots == "added" else make_norm(last, out_channels)
        self.act = make_act(act if end_act else None)

    def _check_encoders(self, names: Sequence[str], conv: Conv, edges: bool, edge_terms: bool) -> None:
        """Raise ``ValueError`` if an argument would have no effect."""
        merged = [name for name in names if name in MERGED]
        passing = [name for name in merged if MERGED[name].neighbours is not None]
        still = [name for name in merged if MERGED[name].neighbours is None]
        if still and str(conv).lower() not in ("gin", "gine", "graphconv"):
            raise ValueError(
                f"the terms {still} pass no messages, but conv={conv!r} needs messages; use conv='gin' or 'graphconv'."
            )
        check("edge_terms", edge_terms, isinstance(edge_terms, bool), "True or False")
        local = edge_terms and any(name not in MERGED and term(name).along_edges for name in names)
        if edge_terms and not (edges and local):
            raise ValueError(
                f"edge_terms=True needs edge features (edge_dim or edge_encoder) and single terms that sum along edges, such as 'local', got "
                f"{list(names)} {'with' if edges else 'without'} edge features."
            )
        if edges and not passing and not local:
            raise ValueError(
                f"edge features (edge_dim or edge_encoder) are used only by base encoders, and none of {list(names)} has one; merge "
                "terms, as in 'own+local', use edge_terms=True, or leave edge_dim and edge_encoder out."
            )
        parts = {part.name for name in passing for part in MERGED[name].others}
        averaged = {name for name in parts if self.aggregation.get(name) == "mean"}
        if averaged and (edges or conv not in ("gin", "graphconv")):
            raise ValueError(
                f"the mean of {sorted(averaged)} needs conv='gin' or 'graphconv' without edge features, got conv={conv!r}."
            )

    def forward(
        self, h: Float[Tensor, "pairs *channels"], bag: SubgraphBag, edge_attr: EdgeAttr = None
    ) -> Float[Tensor, "pairs out_channels"]:
        """Update the values of the pairs of a bag.

        Args:
            h: the values, shape (pairs, channels).
            bag: the bag.
            edge_attr: edge features; those of the bag's graph if not given.
        """
        if not isinstance(bag, SubgraphBag):
            raise ValueError(f"bag is {kind_of(bag)}, expected a SubgraphBag; make one with reign.policy(name)(x, edge_index).")
        if h.dim() != 2 or h.size(1) != self.in_channels:
            raise ValueError(f"h is {kind_of(h)}, expected shape (pairs, {self.in_channels}).")
        return self.update(State(h, bag, self.domain, self.aggregation), edge_attr).h

    def update(
        self, state: State, edge_attr: EdgeAttr = None, wanted: frozenset[str] = frozenset(), shortcut: nn.Module | None = None
    ) -> State:
        """The state after this layer.

        Args:
            state: the values of the pairs of a bag, and the sums that have been computed already.
            edge_attr: edge features; those of the bag's graph if not given.
            wanted: the sums of the new values that the next layer needs.
            shortcut: a map of the values before, which is added to the new values.
        """
        edge_attr = state.bag.graph.edge_attr if edge_attr is None else edge_attr
        return update(self, state.view(self.domain, self.aggregation, wanted), edge_attr, shortcut)

    describe = describe_conv

    def __repr__(self) -> str:
        roots = "" if self.root_terms is None else f", root_terms={[s.name for s in self.root_terms]}"
        terms = [slot.name for slot in self.terms]
        return f"{type(self).__name__}({self.in_channels} -> {self.out_channels}, terms={terms}{roots})"
