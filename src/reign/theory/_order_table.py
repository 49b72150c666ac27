"""The order of methods as tables, compared with what is proven."""

from collections.abc import Sequence

from reign.policies import policy
from reign.theory._methods import parse_method
from reign.theory._order import Finding, Relation, relations

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
            found = [finding.rounds[name] for name in names]
            rounds = [t for t in found if t is not None]
            row.append(f"{len(rounds)}/{len(names)}" + (f" in {max(rounds)}" if rounds else ""))
        rows.append([*row, f"{len(set(finding.classes)):,}"])
    return markdown(rows)


def order_table(findings: Sequence[Finding]) -> str:
    """Which group of equal methods is directly above which, or incomparable, with pairs that show it, and what is proven."""
    rows = [["weaker", "", "stronger", "told apart only by the second", "only by the first", "proven"]]
    for found in relations(findings):
        sign = "<" if found.back is None else "incomparable"
        rows.append([", ".join(found.weaker), sign, ", ".join(found.stronger), found.example, found.back or "", _proven(found)])
    return markdown(rows)


def _proven(found: Relation) -> str:
    """The number of pairs of methods of two groups for which it is proven that the first is at most as strong as the second."""
    cases = [is_proven(a, b) for a in found.weaker for b in found.stronger]
    if found.back is not None or not any(cases):
        return "" if found.back is not None else "no"
    return "yes" if all(cases) else f"{sum(cases)} of {len(cases)}"


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as a Markdown table. The first row is the header."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
