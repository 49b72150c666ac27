"""Expressive power in executable form: colour tests, networks over a finite field, WL tests, invariant graph networks, the paper's
constructions, and pairs of graphs that are hard to tell apart."""

import reign._pyg  # noqa: F401
from reign.theory._card import Card, bound_of_terms, card
from reign.theory._colours import Colours, colours, model_colours

from reign.theory._families import (  # isort: skip
    FAMILIES, Family, Pair, add_family, cfi, family, list_families, read_graph6, read_npy, read_pairs, small_graphs,
)  # fmt: skip
from reign.theory._ign import IGN, IGNLinear, basis, orbits, pool_broadcast
from reign.theory._ign3_layers import policy_program, run_policy
from reign.theory._ign3_program import Program, Step
from reign.theory._implement import IGN3Model, implement, linear_options
from reign.theory._questions import Finding, Relation, answer, groups, relations, survey
from reign.theory._separate import Verdict, parse_method, separate
from reign.theory._wl import Census, census, wl, wl_classes, wl_round, wl_separates

__all__ = [
    "FAMILIES", "IGN", "Card", "Census", "Colours", "Family", "Finding", "IGN3Model", "IGNLinear", "Pair", "Program",
    "Relation", "Step", "Verdict", "add_family", "answer", "basis", "bound_of_terms", "card", "census", "cfi", "colours",
    "family", "groups", "implement", "linear_options", "list_families", "model_colours", "orbits", "parse_method",
    "policy_program", "pool_broadcast", "read_graph6", "read_npy", "read_pairs", "relations", "run_policy", "separate",
    "small_graphs", "survey", "wl", "wl_classes", "wl_round", "wl_separates",
]  # fmt: skip
