"""The summands of a layer: terms, each with its transform or its base encoder."""

from jaxtyping import Float
from torch import Tensor, nn

from reign.bags import Where
from reign.nn._mlp import normalise
from reign.nn._neighbourhood import MERGED, EdgeAttr, Neighbourhood
from reign.nn._reset import Resettable
from reign.nn._state import State
from reign.nn._terms import TERMS, Scope, term


class TermSlot(Resettable):
    """A term and its transform.

    Args:
        name: name of the term.
        transform: module that maps the values of the term, given the rows for the statistics of norms.
        on_pairs: whether the term is transformed at every pair, and not only once where its values live.
    """

    def __init__(self, name: str, transform: nn.Module, on_pairs: bool = False) -> None:
        super().__init__()
        self.name = name
        self.term = term(name)
        self.transform = transform
        self.on_pairs = on_pairs

    @property
    def scope(self) -> Scope:
        """Where the term is transformed."""
        return "pair" if self.on_pairs else self.term.scope

    def value(self, state: State, where: Where = "off") -> Float[Tensor, "rows channels"]:
        """The term, where it is transformed."""
        return state.spread(self.term, where) if self.on_pairs else state.get(self.term, where)

    def forward(self, state: State, where: Where, roots_apart: bool, edge_attr: EdgeAttr) -> Float[Tensor, "rows channels"]:
        """Transform the term."""
        out: Tensor = self.transform(self.value(state, where), state.norm_rows(self.scope, where))
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
    def scope(self) -> Scope:
        """Where the terms live."""
        return TERMS[MERGED[self.name][0]].scope

    def forward(self, state: State, where: Where, roots_apart: bool, edge_attr: EdgeAttr) -> Float[Tensor, "rows channels"]:
        """Encode the terms."""
        if self.everywhere and where == "on":
            near = Neighbourhood(state, self.name, "off", edge_attr, state.norm_rows("pair"))
            return self.at_roots(state, self.encoder(near).index_select(0, state.bag.wiring.root_row))
        on_pairs = self.scope == "pair"
        here: Where = where if on_pairs else "off"
        near = Neighbourhood(state, self.name, here, edge_attr, state.norm_rows(self.scope, here))
        out = normalise(self.norm, self.encoder(near), state.norm_rows(self.scope, here, roots_apart))
        if on_pairs or where == "off" or state.bag.node_based:
            return out
        return out.index_select(0, state.bag.root)

    def at_roots(self, state: State, out: Float[Tensor, "subgraphs channels"]) -> Float[Tensor, "subgraphs channels"]:
        """Normalise what was encoded at roots."""
        return normalise(self.norm, out, state.norm_rows("subgraph", "on"))


Slot = TermSlot | EncoderSlot
