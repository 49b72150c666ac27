"""Upper bounds on the expressive power of a list of terms: the ReIGN(2) table, and other terms that 3-WL also bounds."""

from collections.abc import Sequence

from reign.nn import REIGN2_OFF, REIGN2_ON, Model, term
from reign.theory._rules import Block, Layer, Rule

TABLE = {term(name).name for name in (*REIGN2_OFF, *REIGN2_ON)}
SUMS = {  # sums over all rows, where the table leaves out the diagonal: each is two entries of the table
    "readout": "readout_strict + root",
    "needle": "needle_strict + node_root",
    "node_readout": "node_readout_strict + node_root",
    "root_needle": "root_needle_strict + root",
    "total": "non_roots + roots",
}
BEYOND = {
    "needle_msg": "two ReIGN(2) layers: needle, then readout@A",
    "needle_msg@agg": "2-FWL can count the subgraphs in which two nodes are neighbours, and sum over pairs",
    "swap_local": "2-FWL sums x[h,i] over the neighbours h of k",
    "folklore": "2-FWL sums over all j of both values together, and knows which j are neighbours of i",
    "swap_folklore": "2-FWL sums over all j of both values together, and knows which j are neighbours of k",
    "root_msg": "two ReIGN(2) layers: roots get their own channel, then local",
    "local_others": "two ReIGN(2) layers, as for root_msg",
}


def bound_of_terms(names: Sequence[str]) -> list[str]:
    """Which terms are in the ReIGN(2) table, and the bounds of those that are not.

    >>> bound_of_terms(["own", "local", "transpose"])
    ['inside the ReIGN(2) table, so 3-WL bounds them: own, local, transpose']
    """
    names = list(dict.fromkeys(term(name).name for name in names))
    inside = [f"{name} = {SUMS[name]}" if name in SUMS else name for name in names if name in TABLE or name in SUMS]
    lines = [f"inside the ReIGN(2) table, so 3-WL bounds them: {', '.join(inside)}"] if inside else []
    lines += [f"outside the table, but bounded by 3-WL: {name} ({BEYOND[name]})" for name in names if name in BEYOND]
    unknown = [name for name in names if name not in TABLE and name not in SUMS and name not in BEYOND]
    return lines + ([f"outside the table, without a known bound: {', '.join(unknown)}"] if unknown else [])


def terms_of(rule: Rule) -> list[str]:
    """The names of all terms of a layer, on and off the diagonal."""
    if isinstance(rule, Layer):
        return [name for slot in (*rule.slots, *(rule.root_slots or ())) for name in slot.terms]
    return [*terms_of(rule.inner), *rule.parts] if isinstance(rule, Block) else []


def bound_of_model(model: Model) -> list[str]:
    """The WL test that bounds a model with its policy."""
    policy = model.policy
    if not type(model).takes_policy:
        return [model.wl_bound]
    if not policy.in_paper_class:
        return [
            f"none known: policy '{policy}' is not in the paper's class, so the 3-WL bound does not apply; (k + 2)-WL is conjectured for "
            "k-node policies"
        ]
    lines = [model.wl_bound]
    if policy.mark == "distance":
        lines.append("2-FWL computes hop distances, so distance marks do not change the bound; no construction here")
    elif model.linear_form:
        lines.append("implement(model, 'ign3') shows it for its linear form (GraphConv, sums, no norm, domain='all')")
    return lines
