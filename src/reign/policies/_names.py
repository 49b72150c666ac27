"""Policies by name: ``[2-]name[+[distance[cap]]][:depth][@sample]``, as in "nd", "ego+:3", "2-nm", "ego+distance:3@0.5"."""

from typing import Any

from reign._validate import did_you_mean
from reign.policies._base import Policy
from reign.policies._grammar import POLICIES, make, parse
from reign.policies._sampled import Sampled
from reign.policies._tuples import Tuples


def list_policies() -> list[str]:
    """One example name for each kind of policy. Depths can be any number from 1."""
    return list(policy_meanings())


def policy_meanings() -> dict[str, str]:
    """A one-line description of the subgraphs, for every name in ``list_policies``.

    >>> policy_meanings()["nd"]
    'the root loses its edges'
    """
    found: dict[str, str] = {}
    for name, kind in POLICIES.items():
        found |= {kind.example or name: kind.meaning, **kind.variants}
    return found


def policy(name: str | Policy) -> Policy:
    """Make a policy from its name. A policy is returned unchanged.

    >>> from reign.policies import EgoNets
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
    part = parse(name)
    if part is None:
        raise ValueError(_unknown(name))
    made = make(name, part)
    if part["tuple"]:
        made = Tuples(made)
    if part["sample"]:
        made = Sampled(made, **_sample(name, part["sample"]))
    return made


def _sample(name: str, text: str) -> dict[str, Any]:
    try:
        return {"share": float(text)} if "." in text else {"number": int(text)}
    except ValueError:
        raise ValueError(f"'{name}' ends in '@{text}', expected a share such as '@0.5' or a number such as '@8'.") from None


def _unknown(name: str) -> str:
    hint = did_you_mean(name.strip(), list_policies(), number=2, cutoff=0.5)
    known = ", ".join(map(repr, list_policies()))
    return f"unknown policy '{name}'{hint} Known: {known}; add '@0.5' or '@8' for a random share or number of subgraphs."
