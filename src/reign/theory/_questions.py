"""Tables for questions the paper leaves open, measured on the families of hard pairs."""

from reign.theory._families import FAMILIES, GENERATED, family
from reign.theory._separate import Progress, separate

NODE_BASED = ["null", "nd", "nm", "ego:1", "ego:2", "ego+:1", "ego+:2", "nm+distance"]
TWO_NODE = ["2-nd", "2-nm", "2-ego:1"]


def answer(quick: bool = False, progress: Progress = lambda items, _: items) -> str:
    """Three tables in Markdown.

    Args:
        quick: only families of a few small pairs.
        progress: wraps loops, to show a progress bar.
    """
    names = [name for name in GENERATED if not (quick and name == "csl")]
    small = [name for name in names if name != "csl"]
    sr = [] if quick or not _readable("sr") else ["sr"]
    parts = [
        "# Open questions, measured\n\nPrinted by `reign questions`: pairs told apart, of all pairs of a family (`reign separate --list`). "
        "Models have random weights, 6 layers if no other number stands behind the slash, and three seeds. What is separated is "
        "separated; what is not may still be by other weights, more layers or wider ones.",
        "## Which node-based policies separate more than others?\n\nPairs told apart by DS-GNN (6 layers), and by SUN, which can mark "
        "roots by itself.",
        _table(names, [f"{model}:{policy}" for model in ("ds", "sun") for policy in NODE_BASED], [], progress),
        "## Where do ReIGN(2) and 3-WL differ?\n\nReIGN(2) is bounded by 3-WL; a pair that 3-WL separates and ReIGN(2) does not would "
        "show a gap.",
        _table([*names, *sr], ["reign2:nm/4", "sun:nm", "ppgn/4"], [1, 3], progress),
        "## What do 2-node policies separate beyond 3-WL?\n\nThe paper conjectures that k-node policies are bounded by (k + 2)-WL: 4-WL "
        "here, by 3-FWL.",
        _table(small, [f"ds:{policy}/3" for policy in (*TWO_NODE, "ed")], [3, 4], progress),
    ]
    return "\n\n".join(parts) + "\n"


def _readable(name: str) -> bool:
    try:
        return bool(FAMILIES[name][1]())
    except (ValueError, OSError):
        return False


def _table(names: list[str], models: list[str], wl: list[int], progress: Progress) -> str:
    counts: dict[str, list[str]] = {}
    for name in names:
        pairs = family(name)
        verdicts = separate(pairs, models, wl, progress=progress)
        for method in dict.fromkeys(v.method for v in verdicts):
            counts.setdefault(method, []).append(f"{sum(v.separated for v in verdicts if v.method == method)}/{len(pairs)}")
    rows = ["| method | " + " | ".join(names) + " |", "|" + "---|" * (len(names) + 1)]
    rows += [f"| {method} | " + " | ".join(values) + " |" for method, values in counts.items()]
    return "\n".join(rows)
