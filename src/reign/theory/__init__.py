"""The theory as something that runs: WL tests, invariant graph networks, the paper's constructions, and hard pairs of graphs."""

from reign.theory._card import Card, card
from reign.theory._census import Census, census
from reign.theory._families import FAMILIES, GENERATED, Pair, family, read_graph6
from reign.theory._ign import IGN, IGNLinear
from reign.theory._ign3 import IGN3Model
from reign.theory._implement import implement, linear_options
from reign.theory._orbits import basis, orbits, pool_broadcast
from reign.theory._policy_programs import policy_program, run_policy
from reign.theory._program import Program, Step
from reign.theory._questions import answer
from reign.theory._separate import Verdict, parse_method, separate
from reign.theory._wl import bag_wl, wl, wl_classes, wl_separates

__all__ = [
    "FAMILIES",
    "GENERATED",
    "IGN",
    "Card",
    "Census",
    "IGN3Model",
    "IGNLinear",
    "Pair",
    "Program",
    "Step",
    "Verdict",
    "answer",
    "bag_wl",
    "basis",
    "card",
    "census",
    "family",
    "implement",
    "linear_options",
    "orbits",
    "parse_method",
    "policy_program",
    "pool_broadcast",
    "read_graph6",
    "run_policy",
    "separate",
    "wl",
    "wl_classes",
    "wl_separates",
]
