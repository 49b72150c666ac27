"""The order of methods by the pairs of graphs that they tell apart, and tables that compare it with what is proven."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from torch_geometric.data import Data

from reign.policies import policy
from reign.tables import Table
from reign.theory._colours import run
from reign.theory._families import Pair
from reign.theory._plan import plan_of_model
from reign.theory._separate import Progress, find_method, parse_method, separate
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
    equal: list[list[Finding]] = []
    for finding in findings:
        for group in equal:
            if finding.beyond(group[0]) is None and group[0].beyond(finding) is None:
                group.append(finding)
                break
        else:
            equal.append([finding])
    return sorted(equal, key=lambda group: sum(other[0].beyond(group[0]) is None for other in equal))


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
    order = []
    for a, b in combinations(range(len(ranked)), 2):
        if (a, b) not in below or not any((a, c) in below and (c, b) in below for c in range(len(ranked))):
            example, back = ranked[b][0].beyond(ranked[a][0]), ranked[a][0].beyond(ranked[b][0])
            order.append(Relation(names[a], names[b], str(example), back))
    return order


# -- tables -------------------------------------------------------------------------------------------------------------------

SUN_IMPLEMENTS = {"ds", "dss", "ngnn", "idgnn", "gnnak", "gnnakctx"}  # the paper's theorem on SUN
PROVEN = {  # models that are at most as strong as others, for policies of the paper's class
    "sun": SUN_IMPLEMENTS,
    "reign2": SUN_IMPLEMENTS | {"sun"},
    "3-WL": SUN_IMPLEMENTS | {"sun", "reign2", "sswl", "ppgn", "mpnn", "ign2", "1-WL"},
    "ppgn": SUN_IMPLEMENTS | {"sun", "reign2", "sswl", "3-WL", "mpnn", "ign2", "1-WL"},
    "1-WL": {"mpnn", "ign2"},
    "ign2": {"mpnn", "1-WL"},
}


def is_proven(weaker: str, stronger: str) -> bool:
    """Whether it is proven that one method, such as "sun:nm", is at most as strong as another with the same policy.

    >>> is_proven("dss:nm", "sun:nm"), is_proven("sun:nm", "sswl:nm")
    (True, False)
    """
    (low, one, _), (high, other, _) = parse_method(weaker), parse_method(stronger)
    same = one is None or other is None or one == other
    covered = all(p is None or (policy(p).in_paper_class and policy(p).mark != "distance") for p in (one, other))
    return same and covered and low in PROVEN.get(high, set())


def counts_table(findings: Sequence[Finding], families: dict[str, list[str]]) -> str:
    """The number of pairs of each family that each method tells apart, and the largest number of rounds it needs.

    Args:
        findings: the findings of the methods.
        families: names of the pairs of each family.
    """
    rows = [["method", *families, "classes of small graphs"]]
    for finding in findings:
        row = [finding.method]
        for names in families.values():
            rounds = [t for name in names if (t := finding.rounds[name]) is not None]
            row.append(f"{len(rounds)}/{len(names)}" + (f" in {max(rounds)}" if rounds else ""))
        rows.append([*row, f"{len(set(finding.classes)):,}"])
    return markdown(rows)


def order_table(findings: Sequence[Finding]) -> str:
    """Which group of equal methods is directly above which, or incomparable, with pairs that show it, and what is proven."""
    rows = [["weaker", "", "stronger", "told apart only by the second", "only by the first", "proven"]]
    for each in relations(findings):
        sign = "<" if each.back is None else "incomparable"
        rows.append([", ".join(each.weaker), sign, ", ".join(each.stronger), each.example, each.back or "", _proven(each)])
    return markdown(rows)


def _proven(relation: Relation) -> str:
    """The number of pairs of methods of two groups for which it is proven that the first is at most as strong as the second."""
    if relation.back is not None:
        return ""
    cases = [is_proven(a, b) for a in relation.weaker for b in relation.stronger]
    return "yes" if all(cases) else f"{sum(cases)} of {len(cases)}" if any(cases) else "no"


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as a Markdown table. The first row is the header."""
    return Table("", rows[0], rows[1:]).markdown()
