"""The summands of a layer: terms, each with its transform or its base encoder, and what a base encoder reads.

A base encoder works the same way for nodes of subgraphs, nodes of the graph, and roots alone.
"""

from dataclasses import dataclass
from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from reign.bags import Domain, Messages, Neighbours, Where
from reign.nn._encoders import EdgeAttr, encode_edges
from reign.nn._mlp import NormRows, Resettable, normalise
from reign.nn._options import Roots
from reign.nn._state import Aggregation, State
from reign.nn._terms import MERGED, Merge, Scope, Term, term


@dataclass
class Neighbourhood:
    """The rows that an encoder updates, and their neighbours.

    Args:
        state: the values of the bag.
        merge: which terms are merged.
        where: whether all pairs ("off") or the roots alone ("on") are updated.
        edge_attr: edge features of the graph.
        rows: the rows used for the statistics of inner norms; None for all.
    """

    state: State
    merge: Merge
    where: Where
    edge_attr: EdgeAttr
    rows: NormRows

    def __post_init__(self) -> None:
        for part in self.merge.terms:
            if part.node_based:
                self.state.bag.require_roots(f"term '{part.name}'")

    @property
    def own(self) -> Float[Tensor, "rows channels"]:
        """The values to update."""
        return self.state.get(self.merge.own, self.where)

    @property
    def source(self) -> Float[Tensor, "sources channels"]:
        """All values that messages can come from."""
        return self.state.get(self.merge.own)

    @property
    def sums(self) -> list[Float[Tensor, "rows channels"]]:
        """The plain sums over neighbours, and the other merged terms, at the updated rows."""
        value = self.state.spread if self.merge.neighbours is None else self.state.get
        return [value(part, self.where) for part in self.merge.others]

    @property
    def averaged(self) -> bool:
        """Whether some of the other merged terms take a mean, so that messages are not only summed."""
        return any(self.state.aggregation.get(part.name) == "mean" for part in self.merge.others)

    @property
    def messages(self) -> Messages:
        """Message passing in two steps: read the sources, then sum into the targets."""
        return self.state.bag.wiring.messages(self.neighbours, self.where)

    @property
    def neighbours(self) -> Neighbours:
        """The kind of neighbours that messages come from."""
        assert self.merge.neighbours is not None
        return self.merge.neighbours

    def collect(self, message: Float[Tensor, "messages channels"]) -> list[Float[Tensor, "rows channels"]]:
        """The sums of messages. If messages from roots have their own weights, there are two sums: of other messages, and of these."""
        messages = self.messages
        if len(self.merge.others) == 1:
            return [messages.into_targets(message)]
        bag = self.state.bag
        source = messages.from_rows.index
        from_root = (source == bag.wiring.root_row[bag.sub[source]])[:, None]
        return [messages.into_targets(message * ~from_root), messages.into_targets(message * from_root)]


class TermSlot(Resettable):
    """A term and its transform.

    Args:
        name: name of the term.
        transform: module that maps the values of the term, given the rows for the statistics of norms.
        on_pairs: whether the term is transformed at every pair, and not only once where its values live.
        edge_encoder: encoder of the edge features that are added to the messages of the term; None for messages without.
    """

    def __init__(self, name: str, transform: nn.Module, on_pairs: bool = False, edge_encoder: nn.Module | None = None) -> None:
        super().__init__()
        self.name = name
        self.term = term(name)
        self.transform = transform
        self.on_pairs = on_pairs
        self.edge_encoder = edge_encoder

    @property
    def terms(self) -> tuple[Term, ...]:
        """The term."""
        return (self.term,)

    @property
    def maps(self) -> nn.Module:
        """What its values go through."""
        return self.transform

    def needs(self, where: Where) -> frozenset[str]:
        """The ``SUMS`` that it is computed from."""
        return frozenset(self.term.needs(where))

    @property
    def scope(self) -> Scope:
        """Where the term is transformed."""
        return "pair" if self.on_pairs else self.term.scope

    def value(self, state: State, where: Where = "off", edge_attr: EdgeAttr = None) -> Float[Tensor, "rows channels"]:
        """The term, where it is transformed."""
        if self.edge_encoder is not None:
            state = state.with_edges(encode_edges(self.edge_encoder, edge_attr))
        return state.spread(self.term, where) if self.on_pairs else state.get(self.term, where)

    def forward(self, state: State, where: Where, roots_apart: bool, edge_attr: EdgeAttr) -> Float[Tensor, "rows channels"]:
        """Transform the term."""
        out: Tensor = self.transform(self.value(state, where, edge_attr), state.norm_rows(self.scope, where))
        return out


class EncoderSlot(Resettable):
    """Terms merged by a base encoder, with a norm after it.

    Args:
        name: names of the terms, joined by "+".
        encoder: the base encoder.
        norm: the norm.
        everywhere: whether an encoder of roots is evaluated at all pairs, which its inner norms then see, before roots are picked.
    """

    def __init__(self, name: str, encoder: nn.Module, norm: nn.Module, everywhere: bool = False) -> None:
        super().__init__()
        self.name = name
        self.encoder = encoder
        self.norm = norm
        self.everywhere = everywhere and self.scope == "pair"

    @property
    def merge(self) -> Merge:
        """How its terms are merged."""
        return MERGED[self.name]

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms."""
        return self.merge.terms

    @property
    def maps(self) -> nn.Module:
        """The MLP of GIN."""
        return self.encoder.get_submodule("mlp")

    def needs(self, where: Where) -> frozenset[str]:
        """The ``SUMS`` that it is computed from: with messages those of the values, and at roots also the pairs that messages come from."""
        merge = self.merge
        needed = {name for part in (merge.terms if merge.neighbours is None else (merge.own,)) for name in part.needs(where)}
        if where == "on" and self.scope == "pair":
            needed |= {"root", "near"} if merge.passes and not self.everywhere else {"root"}
        return frozenset(needed)

    @property
    def scope(self) -> Scope:
        """Where the terms live."""
        return self.merge.own.scope

    def forward(self, state: State, where: Where, roots_apart: bool, edge_attr: EdgeAttr) -> Float[Tensor, "rows channels"]:
        """Encode the terms."""
        if self.everywhere and where == "on":
            near = Neighbourhood(state, self.merge, "off", edge_attr, state.norm_rows("pair"))
            return self.at_roots(state, self.encoder(near).index_select(0, state.bag.wiring.root_row))
        on_pairs = self.scope == "pair"
        here: Where = where if on_pairs else "off"
        near = Neighbourhood(state, self.merge, here, edge_attr, state.norm_rows(self.scope, here))
        out = normalise(self.norm, self.encoder(near), state.norm_rows(self.scope, here, roots_apart))
        if on_pairs or where == "off" or state.bag.node_based:
            return out
        return out.index_select(0, state.bag.root)

    def at_roots(self, state: State, out: Float[Tensor, "subgraphs channels"]) -> Float[Tensor, "subgraphs channels"]:
        """Normalise what was encoded at roots."""
        return normalise(self.norm, out, state.norm_rows("subgraph", "on"))


Slot = TermSlot | EncoderSlot


class TermLayer(Resettable):
    """What is known about a layer that is a sum of terms; ``SubgraphConv`` is such a layer."""

    in_channels: int
    out_channels: int
    norm: nn.Module
    root_norm: nn.Module | None
    act: nn.Module
    terms: nn.ModuleList
    root_terms: nn.ModuleList | None
    roots: Roots
    aggregation: dict[str, Aggregation]
    domain: Domain

    def slots(self, on: bool = False) -> list[Slot]:
        """List the terms with their transforms: those of all pairs, or with ``on`` those of the roots."""
        return cast(list[Slot], list(self.terms if not on else self.root_terms or []))

    @property
    def needs(self) -> frozenset[str]:
        """The sums of its input that the layer needs."""
        return frozenset().union(*(slot.needs("off") for slot in self.slots()), *(slot.needs("on") for slot in self.slots(on=True)))
