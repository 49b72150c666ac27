"""The sums of the values of pairs that a layer needs: the layer before it returns them along with the values."""

from types import ModuleType
from typing import TYPE_CHECKING

from reign.bags import narrow_near, narrow_pairs
from reign.nn._neighbourhood import MERGED
from reign.nn._slots import EncoderSlot
from reign.nn._state import State
from reign.nn._terms import TERMS

if TYPE_CHECKING:
    from reign.nn._conv import SubgraphConv

SUMS = ("readout", "needle", "root", "near")


def needs(conv: "SubgraphConv") -> frozenset[str]:
    """Which of the sums in ``SUMS`` a layer needs."""
    found: set[str] = set()
    for where, slots in (("off", conv.slots()), ("on", conv.slots(on=True))):
        for slot in slots:
            if isinstance(slot, EncoderSlot):
                own, sums, neighbours = MERGED[slot.name]
                names = (own,) if neighbours is not None else (own, *sums)
            else:
                names = (slot.name,)
            for name in names:
                found |= _sums_of(TERMS[name].name, where == "on")
            if where == "on" and isinstance(slot, EncoderSlot) and slot.scope == "pair":
                found |= {"root", "near"} if passes(slot) and not slot.everywhere else {"root"}
    return frozenset(found)


def _sums_of(name: str, on: bool) -> set[str]:
    if "@" in name:
        return set()
    found = set()
    if "readout" in name or name in ("total", "non_roots"):
        found.add("readout")
    if "needle" in name:
        found.add("needle")
    if "strict" in name or name in ("root", "node_root", "roots", "non_roots") or (on and name in ("own", "transpose")):
        found.add("root")
    return found


def passes(slot: EncoderSlot) -> bool:
    """Whether the encoder uses the values and the sums over their neighbours unchanged."""
    own, sums, neighbours = MERGED[slot.name]
    return own in ("own", "needle") and len(sums) == 1 and neighbours is not None


def with_sums(state: State, kernels: ModuleType, wanted: frozenset[str]) -> None:
    """Compute the sums that a layer needs, unless the state has them already."""
    if state.has(wanted):
        return
    bag = state.bag
    pairs = narrow_pairs(bag, False, state.masked)
    if pairs.root is None:
        wanted -= {"root", "near"}
    picks = narrow_near(bag)[0] if "near" in wanted else None
    out = kernels.sums(state.h, pairs, picks, wanted)
    state.h = out[0]
    state.add(dict(zip(SUMS, out[1:], strict=True)))
