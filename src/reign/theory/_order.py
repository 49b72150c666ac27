"""Compare methods by the pairs of graphs that they tell apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from torch_geometric.data import Data

from reign.theory._colours import run
from reign.theory._margins import Progress
from reign.theory._methods import find_method
from reign.theory._plan import plan_of_model
from reign.theory._readers import Pair
from reign.theory._separate import separate
from reign.theory._wl import wl_classes


@dataclass(frozen=True)
class Finding:
    """The pairs that a method tells apart.

    Attributes:
        method: its name, such as "sun:nm" or "3-WL".
        rounds: for the name of each pair, the number of rounds that its colour test needs; None if it does not tell the pair apart.
        classes: the class of each of the small graphs.
    """

    method: str
    rounds: dict[str, int | None]
    classes: tuple[int, ...]

    def beyond(self, other: "Finding") -> str | None:
        """A pair that this method tells apart and the other does not; None if there is none."""
        for name, mine in self.rounds.items():
            if mine is not None and other.rounds[name] is None:
                return name
        first: dict[int, int] = {}
        for g, (mine, theirs) in enumerate(zip(self.classes, other.classes, strict=True)):
            if self.classes[first.setdefault(theirs, g)] != mine:
                return f"small {first[theirs]} / {g}"
        return None


def survey(
    method: str | int, pairs: Sequence[Pair], graphs: Sequence[Data] = (), progress: Progress = lambda items, _: items
) -> Finding:
    """Find the pairs that the colour test of a model (given by name) or a WL test (given by its order) tells apart.

    Args:
        method: a name such as "sun:nm", or 3 for 3-WL.
        pairs: pairs of graphs.
        graphs: graphs that are all compared with each other, if they have the same number of nodes.
        progress: function that wraps loops, to show a progress bar.
    """
    verdicts = separate(pairs, wl=[method], progress=progress)
    found = {v.pair: v.layer if v.layer is not None else 0 if v.separated else None for v in verdicts}
    if isinstance(method, int):
        classes = wl_classes(graphs, method) if graphs else []
    else:
        classes = run(plan_of_model(find_method(method).make(1, "silu")), graphs).classes if graphs else []
    joint: dict[tuple[int, int], int] = {}
    sizes = [joint.setdefault((g.num_nodes, c), len(joint)) for g, c in zip(graphs, classes, strict=True)]
    return Finding(f"{method}-WL" if isinstance(method, int) else method, found, tuple(sizes))


def groups(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Groups of findings that tell the same pairs apart, weaker groups first."""
    found: list[list[Finding]] = []
    for finding in findings:
        for group in found:
            if finding.beyond(group[0]) is None and group[0].beyond(finding) is None:
                group.append(finding)
                break
        else:
            found.append([finding])
    return sorted(found, key=lambda group: sum(other[0].beyond(group[0]) is None for other in found))


@dataclass(frozen=True)
class Relation:
    """The relation of two groups of methods: ``stronger`` tells more pairs apart than ``weaker``, or they are incomparable.

    Attributes:
        weaker: names of one group.
        stronger: names of the other group.
        example: a pair that only ``stronger`` tells apart.
        back: a pair that only ``weaker`` tells apart; if there is one, the groups are incomparable.
    """

    weaker: tuple[str, ...]
    stronger: tuple[str, ...]
    example: str
    back: str | None = None


def relations(findings: Sequence[Finding]) -> list[Relation]:
    """The order of methods: which group of equal methods is directly above which, and which are incomparable, with examples."""
    ranked = groups(findings)
    names = [tuple(f.method for f in group) for group in ranked]
    below = {(a, b) for a in range(len(ranked)) for b in range(len(ranked)) if a != b and ranked[a][0].beyond(ranked[b][0]) is None}
    found = []
    for a, b in combinations(range(len(ranked)), 2):
        if (a, b) in below:
            if not any((a, c) in below and (c, b) in below for c in range(len(ranked))):
                found.append(Relation(names[a], names[b], str(ranked[b][0].beyond(ranked[a][0]))))
        else:
            found.append(Relation(names[a], names[b], str(ranked[b][0].beyond(ranked[a][0])), ranked[a][0].beyond(ranked[b][0])))
    return found
