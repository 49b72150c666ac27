"""Tables for questions the paper leaves open, answered by exact tests on the families of hard pairs."""

import time
from collections.abc import Sequence
from typing import Any

from reign.theory._families import FAMILIES, Pair, family, list_families, small_graphs
from reign.theory._order import Finding, counts_table, markdown, order_table, survey
from reign.theory._separate import Progress, separate

MODELS = ("ds", "idgnn", "ngnn", "gnnak", "gnnakctx", "gnnakplus", "dss", "sun", "sswl", "reign2")
POLICIES = ("null", "nd", "nm", "nm+distance", "ego:1", "ego:2", "ego+:1", "ego+:2")
BASELINES: tuple[str | int, ...] = ("mpnn", "ign2", 1, 3, "ppgn")
TWO_NODE = ("2-nd", "2-nm", "2-ego:1", "ed")

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
        "## What do 2-node policies separate beyond 3-WL?\n\nDS-GNN with policies of two nodes or an edge, on the pairs of up to 40 nodes. "
        "The paper conjectures that k-node policies are bounded by (k + 2)-WL, which is 4-WL here.",
        _two_node([p for name in names if name not in ("csl", "exp", "cexp") for p in pairs[name]], progress),
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


def _two_node(pairs: list[Pair], progress: Progress) -> str:
    pairs = [p for p in pairs if p.one.num_nodes <= 40]
    methods: list[str | int] = [3, 4, *(f"ds:{policy}" for policy in TWO_NODE)]
    findings = [survey(method, pairs, progress=progress) for method in methods]
    columns = {
        "of all pairs": [p.name for p in pairs],
        "of pairs equal under 3-WL": [p.name for p in pairs if findings[0].rounds[p.name] is None],
        "of pairs equal under 4-WL": [p.name for p in pairs if findings[1].rounds[p.name] is None],
    }
    rows = [["method", *columns]]
    for f in findings:
        rows.append(
            [f.method, *(f"{sum(f.rounds[name] is not None for name in names)}/{len(names)}" for names in columns.values())]
        )
    return markdown(rows)


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
