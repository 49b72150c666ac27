"""Policies by name: ``[2-]name[+[distance[cap]]][:depth][@sample]``, as in "nd", "ego+:3", "2-nm", "ego+distance:3@0.5"."""

import re
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from reign.policies._base import Policy
from reign.policies._edge import EdgeDeletion
from reign.policies._node import EgoNets, NodeDeletion, NodeMarking, Null
from reign.policies._sampled import Sampled
from reign.policies._tuples import Tuples
from reign.policies._whole import Whole

POLICIES: dict[str, type[Policy]] = {
    "null": Null,
    "nd": NodeDeletion,
    "nm": NodeMarking,
    "ego": EgoNets,
    "ed": EdgeDeletion,
    "whole": Whole,
}
_GRAMMAR = re.compile(
    r"(?P<tuple>2-)?(?P<name>[a-z_]+)(?P<mark>\+(?P<distance>distance(?P<cap>\d+)?)?)?(:(?P<depth>\d+))?(@(?P<sample>[\d.]+))?"
)


def list_policies() -> list[str]:
    """A name for each kind of policy there is; depths can be any number from 1."""
    return list(policy_meanings())


def policy_meanings() -> dict[str, str]:
    """What each subgraph is, for every name of ``list_policies``, in one line."""
    kinds: list[type[Policy]] = [*(kind for name, kind in POLICIES.items() if name != "whole"), Tuples, Whole]
    found: dict[str, str] = {}
    for kind in kinds:
        found |= {kind.example: kind.meaning, **kind.variants}
    return found


def policy(name: str | Policy) -> Policy:
    """The policy of a name; a policy is passed through.

    >>> policy("ego+:3") == EgoNets(num_hops=3, mark=True)
    True
    >>> policy("2-nm@0.5")
    Sampled(policy=Tuples(policy=NodeMarking(mark=True, max_distance=5)), share=0.5, number=None, seed=0, eval_draws=None)
    >>> policy("ego3")
    Traceback (most recent call last):
        ...
    ValueError: unknown policy 'ego3'; did you mean 'ego:3' or 'ego+:3'? Known: 'null', 'nd', 'nm', 'nm+distance', 'ego:3',
    'ego+:3', 'ego+distance:3', 'ed', '2-nd', '2-nm', '2-ego:2', 'whole'; add '@0.5' or '@8' for a random share or number of
    subgraphs.
    """
    if isinstance(name, Policy):
        return name
    if not isinstance(name, str):
        raise ValueError(f"policy is of type {type(name).__name__}, expected a name such as 'ego+:3' or a Policy.")
    part = _GRAMMAR.fullmatch(name.strip().lower())
    if part is None or part["name"] not in POLICIES:
        raise ValueError(_unknown(name))
    made = _make(name, POLICIES[part["name"]], part)
    if part["tuple"]:
        made = Tuples(made)
    if part["sample"]:
        try:
            sample: dict[str, Any] = {"share": float(part["sample"])} if "." in part["sample"] else {"number": int(part["sample"])}
        except ValueError:
            raise ValueError(f"'{name}' ends in '@{part['sample']}', expected a share as '@0.5' or a number as '@8'.") from None
        made = Sampled(made, **sample)
    return made


def _make(name: str, kind: type[Policy], part: re.Match[str]) -> Policy:
    takes = {f.name for f in fields(kind) if f.init}  # type: ignore[arg-type]
    options: dict[str, Any] = {}
    if part["mark"]:
        if "mark" not in takes:
            raise ValueError(f"policy '{part['name']}' takes no mark, got '{name}'; marks go with 'nm' and 'ego'.")
        options["mark"] = "distance" if part["distance"] else True
    if part["cap"]:
        if "max_distance" not in takes:
            raise ValueError(f"policy '{part['name']}' takes no cap on distances, got '{name}'; write '+distance'.")
        options["max_distance"] = int(part["cap"])
    if part["depth"] is not None and "num_hops" not in takes:
        raise ValueError(f"policy '{part['name']}' takes no depth, got '{name}'; write '{name.split(':')[0]}'.")
    if "num_hops" in takes:
        if part["depth"] is None:
            raise ValueError(f"policy '{name}' needs a depth, as in '{name.split('@')[0]}:3'.")
        options["num_hops"] = int(part["depth"])
    return kind(**options)


def _unknown(name: str) -> str:
    near = get_close_matches(name.strip().lower(), list_policies(), n=2, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
    known = ", ".join(map(repr, list_policies()))
    return f"unknown policy '{name}'{hint} Known: {known}; add '@0.5' or '@8' for a random share or number of subgraphs."
