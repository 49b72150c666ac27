"""The theory as something that runs: WL tests, invariant graph networks, the paper's constructions, and hard pairs of graphs."""

from reign.theory.card import Card, card
from reign.theory.families import FAMILIES, GENERATED, Pair, family, read_graph6
from reign.theory.ign import IGN, IGNLinear, basis, orbits, pool_broadcast
from reign.theory.ign3 import IGN3Model
from reign.theory.implement import implement, linear_options
from reign.theory.policy_programs import policy_program, run_policy
from reign.theory.program import Program, Step
from reign.theory.separate import Verdict, separate
from reign.theory.wl import bag_wl, wl, wl_classes, wl_separates

__all__ = [
    "FAMILIES",
    "GENERATED",
    "IGN",
    "Card",
    "IGN3Model",
    "IGNLinear",
    "Pair",
    "Program",
    "Step",
    "Verdict",
    "bag_wl",
    "basis",
    "card",
    "family",
    "implement",
    "linear_options",
    "orbits",
    "policy_program",
    "pool_broadcast",
    "read_graph6",
    "run_policy",
    "separate",
    "wl",
    "wl_classes",
    "wl_separates",
]
