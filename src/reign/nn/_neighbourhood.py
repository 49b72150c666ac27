"""The input of a base encoder: the values it updates, and ways to sum over their neighbours.

The encoder works the same way for nodes of subgraphs, nodes of the graph, and roots alone.
"""

from dataclasses import dataclass

from jaxtyping import Float, Shaped
from torch import Tensor

from reign.bags import Messages, Neighbours, Where
from reign.nn._mlp import NormRows
from reign.nn._state import State
from reign.nn._terms import TERMS

EdgeAttr = Shaped[Tensor, "edges *edge_channels"] | None

# how a base encoder merges terms: (own term, other terms, the neighbours that they sum over, or None if no messages are passed)
MERGED: dict[str, tuple[str, tuple[str, ...], Neighbours | None]] = {
    "own+local": ("own", ("local",), "Ak"),
    "own+local_others+root_msg": ("own", ("local_others", "root_msg"), "Ak"),
    "own+swap_local": ("own", ("swap_local",), "swap"),
    "own+folklore": ("own", ("folklore",), "A"),
    "own+swap_folklore": ("own", ("swap_folklore",), "swap"),
    "own+folklore+swap_folklore": ("own", ("folklore", "swap_folklore"), "A"),
    "own_root+root_msg": ("own_root", ("root_msg",), "Ak"),
    "needle+needle_msg": ("needle", ("needle_msg",), "nodes"),
    "needle+needle_msg@agg": ("needle", ("needle_msg@agg",), "agg"),
    **{f"own+{name}": ("own", (name,), None) for name in ("transpose", "root", "node_root", "readout", "needle")},
}


@dataclass
class Neighbourhood:
    """The rows that an encoder updates, and their neighbours.

    Args:
        state: the values of the bag.
        merged: which terms are merged, one of ``MERGED``.
        where: whether all pairs ("off") or the roots alone ("on") are updated.
        edge_attr: edge features of the graph.
        rows: the rows used for the statistics of inner norms; None for all.
    """

    state: State
    merged: str
    where: Where
    edge_attr: EdgeAttr
    rows: NormRows

    def __post_init__(self) -> None:
        own, names, _ = MERGED[self.merged]
        for name in (own, *names):
            if TERMS[name].node_based:
                self.state.bag.require_node_based(f"term '{name}'")

    @property
    def own(self) -> Float[Tensor, "rows channels"]:
        """The values to update."""
        return self.state.get(TERMS[MERGED[self.merged][0]], self.where)

    @property
    def source(self) -> Float[Tensor, "sources channels"]:
        """All values that messages can come from."""
        return self.state.get(TERMS[MERGED[self.merged][0]])

    @property
    def sums(self) -> list[Float[Tensor, "rows channels"]]:
        """The plain sums over neighbours, and the other merged terms, at the updated rows."""
        _, names, neighbours = MERGED[self.merged]
        value = self.state.spread if neighbours is None else self.state.get
        return [value(TERMS[name], self.where) for name in names]

    @property
    def averaged(self) -> bool:
        """Whether some of the other merged terms take a mean, so that messages are not only summed."""
        return any(self.state.aggregation.get(name) == "mean" for name in MERGED[self.merged][1])

    @property
    def messages(self) -> Messages:
        """Message passing in two steps: read the sources, then sum into the targets."""
        return self.state.bag.wiring.messages(self.neighbours, self.where)

    @property
    def neighbours(self) -> Neighbours:
        """The kind of neighbours that messages come from."""
        found = MERGED[self.merged][2]
        assert found is not None
        return found

    def collect(self, message: Float[Tensor, "messages channels"]) -> list[Float[Tensor, "rows channels"]]:
        """The sums of messages. If messages from roots have their own weights, there are two sums: of other messages, and of these."""
        messages = self.messages
        if len(MERGED[self.merged][1]) == 1:
            return [messages.into_targets(message)]
        bag = self.state.bag
        source = messages.from_rows.index
        from_root = (source == bag.wiring.root_row[bag.sub[source]])[:, None]
        return [messages.into_targets(message * ~from_root), messages.into_targets(message * from_root)]
