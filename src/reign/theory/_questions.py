"""The order of methods by the pairs of graphs that they tell apart, and tables that compare it with what is proven.

Some of the tables are for questions the paper leaves open, which exact tests on the families of hard pairs answer.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from torch_geometric.data import Data

from reign.data import Progress
from reign.policies import policy
from reign.tables import Table
from reign.theory._colours import run
from reign.theory._families import FAMILIES, Pair, family, list_families, small_graphs
from reign.theory._plan import plan_of_model
from reign.theory._separate import find_method, parse_method, separate
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


# -- questions the paper leaves open -------------------------------------------------------------------------------------------

MODELS = ("ds", "idgnn", "ngnn", "gnnak", "gnnakctx", "gnnakplus", "dss", "sun", "sswl", "reign2")
POLICIES = ("null", "nd", "nm", "nm+distance", "ego:1", "ego:2", "ego+:1", "ego+:2")
BASELINES: tuple[str | int, ...] = ("mpnn", "ign2", 1, 3, "ppgn")
TUPLE_MODELS = ("ds", "dss", "tuplesun", "tuplereign2")
TUPLE_POLICIES = {
    1: ("null", "nd", "nm", "ego:1", "ego+:1", "ego:2", "ego+:2"),
    2: (*(f"2-{order}{name}" for order in ("", "set-") for name in ("null", "nd", "nm", "ego:1", "ego+:1")), "ed"),
}

INTRODUCTION = """# Open questions, answered by exact tests

This page is the output of `reign questions`. A colour test runs until it is stable. If it does not tell two graphs apart, no network of
that architecture does, with any weights and any number of layers. If it tells them apart in t rounds, a network over a finite field with
random weights tells them apart in t layers (tested for every model). "12/32 in 7" means 12 of 32 pairs, the slowest of them after 7 rounds.
`reign separate --list` lists the families; for EXP and CEXP, every tenth pair is used. "Classes of small graphs" counts the classes
among all 1,252 graphs of up to 7 nodes. "small 1 / 2" stands for the graphs at positions 1 and 2 of `reign.theory.small_graphs()`."""


def answer(quick: bool = False, progress: Progress = lambda items, _: items) -> str:
    """Compute the tables of ``reign questions``, in Markdown.

    Args:
        quick: use only families of a few small pairs, and two policies.
        progress: function that wraps loops, to show a progress bar.
    """
    names = ["triangles", "decalin", "rook", "regular"] if quick else [n for n in list_families() if _readable(n)]
    pairs = {name: family(name) for name in names}
    policies = ("null", "nm") if quick else POLICIES
    small = [p for name in names if name not in ("csl", "exp", "cexp") for p in pairs[name] if p.one.num_nodes <= 40]
    tried = {name: mine[:: 10 if len(mine) > 500 else 1] for name, mine in pairs.items()}
    every = [pair for mine in tried.values() for pair in mine]
    graphs = small_graphs(5 if quick else 7)

    def look(methods: Sequence[str | int], chosen: Sequence[Pair] = every) -> list[Finding]:
        return [survey(method, chosen, graphs, progress) for method in methods]

    base = look(BASELINES)
    found = {policy: look([f"{model}:{policy}" for model in MODELS]) for policy in policies}
    labels = {name: [pair.name for pair in mine] for name, mine in tried.items()}
    parts = [
        INTRODUCTION,
        "## What each model tells apart\n\nModels with each node-based policy, and baselines without one.",
        counts_table([*base, *(f for mine in found.values() for f in mine)], labels),
        "## Which model is stronger?\n\nFor each policy, the tables show groups of models that tell the same pairs apart, which group is "
        "directly above which, and a pair that shows it. Equal means equal on all these pairs. The last column shows whether the paper, or "
        "work it builds on, proves that the first is at most as strong as the second; for groups of several models, it counts the pairs of "
        "models with a proof.",
        *(f"### Policy `{policy}`\n\n" + order_table([*base, *mine]) for policy, mine in found.items()),
        "## Which policy is stronger?\n\nThe same comparison, for the policies of one model.",
        *(
            f"### {model}\n\n" + order_table([f for mine in found.values() for f in mine if f.method.split(":")[0] == model])
            for model in ("ds", "dss", "sun", "reign2")
        ),
        *_gap({f.method: f for f in [*base, *found["nm"]]}, every, progress),
        "## Are policies of k nodes bounded by (k + 2)-WL?\n\nThe paper conjectures it. The table has colour tests of policies of one node and of "
        "two, as ordered pairs, sets or edges, with the terms of DS, of DSS, and of SUN and ReIGN(2) along each root, on the pairs of up to 40 nodes.",
        *(conjecture(small, TUPLE_POLICIES[k][: 3 if quick else None], k, progress) for k in (1, 2)),
        "## Layers and digits\n\nPairs of CFI graphs told apart by SUN with node marking: by its colours, by networks over a finite field, "
        "and by networks in float64 with three seeds (differences above 100 times the noise).",
        _digits(family("cfi")[:12] if quick else family("cfi"), progress),
        "## WL tests, with time\n\nAll pairs, with the time in seconds on one core. 2-WL tells the same pairs apart as 1-WL, and 4-WL is run "
        "only on the pairs that 3-WL does not tell apart.",
        _wl_times(pairs, progress),
    ]
    return "\n\n".join(parts) + "\n"


def _readable(name: str) -> bool:
    try:
        return bool(FAMILIES[name].pairs())
    except (ValueError, OSError):
        return False


def _gap(found: dict[str, Finding], pairs: list[Pair], progress: Progress) -> list[str]:
    """Where SUN, SUN with the term x[i,k], SSWL+, ReIGN(2) and 3-WL differ with node marking, if the pairs show it."""
    names = ["sun:nm", "sswl:nm", "reign2:nm", "3-WL"]
    rounds = {name: found[name].rounds for name in names}
    differ = [p for p in pairs if len({rounds[name][p.name] is None for name in names}) > 1]
    text = "## Where do SUN, SSWL+, ReIGN(2) and 3-WL differ?\n\nRounds of the colour tests with node marking; - means that no round tells a pair apart."
    if not differ:
        return [text, "No pair here shows a difference."]
    below = [p.name for p in differ if rounds["reign2:nm"][p.name] is None and rounds["3-WL"][p.name] is not None]
    above = [p.name for p in differ if rounds["reign2:nm"][p.name] is not None and rounds["sun:nm"][p.name] is None]
    more = {v.pair: v.layer for v in separate(differ, wl=["sun:nm"], progress=progress, transpose=True)}
    rounds = {"sun:nm": rounds.pop("sun:nm"), "sun:nm with transpose": more, **rounds}
    rows = [["pair", *rounds], *([p.name, *(_round(mine[p.name]) for mine in rounds.values())] for p in differ)]
    answers = []
    if below:
        answers.append(f"ReIGN(2) is strictly weaker than 3-WL: {len(below)} pairs are told apart by 3-WL but not by any ReIGN(2).")
    if above:
        gained = sum(more[name] is not None for name in above)
        answers.append(
            f"SUN cannot implement ReIGN(2): {len(above)} pairs are told apart by ReIGN(2) but not by any SUN. With the term x[i,k], SUN tells "
            f"{gained} of these apart."
        )
    return [text, *answers, markdown(rows)]


def conjecture(pairs: Sequence[Pair], policies: Sequence[str], k: int, progress: Progress = lambda items, _: items) -> str:
    """The paper's conjecture that policies of k nodes are bounded by (k + 2)-WL, on some pairs: a table in Markdown, and what it shows.

    Args:
        pairs: pairs of graphs.
        policies: policies of k nodes.
        k: the number of nodes.
        progress: function that wraps loops, to show a progress bar.
    """
    weaker, bound = (survey(order, pairs, progress=progress).rounds for order in (k + 1, k + 2))
    tried = [pair for pair in pairs if weaker[pair.name] is None]
    beyond = {pair.name for pair in tried if bound[pair.name] is None}
    rows, counterexamples = [["policy", *TUPLE_MODELS]], list[str]()
    for each in policies:
        told = {
            model: {name for name, t in survey(f"{model}:{each}", tried, progress=progress).rounds.items() if t is not None}
            for model in TUPLE_MODELS
        }
        rows.append([f"`{each}`", *(f"{len(names - beyond)} and {len(names & beyond)}" for names in told.values())])
        counterexamples += [f"{name} by {model}:{each}" for model, names in told.items() for name in sorted(names & beyond)]
    found = f"Counterexamples: {', '.join(counterexamples)}." if counterexamples else "There is no counterexample."
    return (
        f"k = {k}: the numbers of pairs told apart, out of the {len(tried) - len(beyond)} that {k + 2}-WL but not {k + 1}-WL tells apart, and out "
        f"of the {len(beyond)} that {k + 2}-WL does not tell apart. {found}\n\n" + markdown(rows)
    )


def _digits(pairs: list[Pair], progress: Progress) -> str:
    rows = [["layers", "colours", "finite field", "float64, SiLU", "float64, sine"]]
    for layers in (3, 6, 12):
        kinds: list[dict[str, Any]] = [
            {"wl": [f"sun:nm/{layers}"]},
            {"models": [f"sun:nm/{layers}"], "act": None},
            *({"models": [f"sun:nm/{layers}"], "exact": False, "act": act} for act in ("silu", "sine")),
        ]
        counts = [sum(v.separated for v in separate(pairs, progress=progress, **kind)) for kind in kinds]
        rows.append([str(layers), *(f"{count}/{len(pairs)}" for count in counts)])
    return markdown(rows)


def _wl_times(pairs: dict[str, list[Pair]], progress: Progress) -> str:
    rows = [["family", *(f"{k}-WL" for k in (1, 2, 3, 4))]]
    for name, mine in pairs.items():
        row = [name]
        for k in (1, 2, 3, 4):
            start = time.process_time()
            done = sum(v.separated for v in separate(mine, wl=[k], progress=progress))
            row.append(f"{done}/{len(mine)}, {time.process_time() - start:.1f} s")
        rows.append(row)
    return markdown(rows)


def _round(number: int | None) -> str:
    return "-" if number is None else str(number)
