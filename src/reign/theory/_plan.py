"""A model as data: its policy, layers and pooling, derived from its modules or from lists of terms."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from reign.bags import Domain, SubgraphBag
from reign.nn import FOLKLORE, Model, term
from reign.policies import Policy, policy
from reign.theory._exact_lift import exact_lift
from reign.theory._pools import POOLS, Pool
from reign.theory._read import pool_of, rule_of
from reign.theory._rules import Layer, Rule, Slot


@dataclass(frozen=True)
class Plan:
    """The computation of a model, without weights and widths.

    Args:
        policy: the selection policy.
        rules: the layers.
        pool: the pooling from pairs to graphs.
        domain: the range of sums.
        lift: function from features of nodes to features of pairs, including marks.
        residual: whether the input of a layer is added to its output.
        jk: the layers that are pooled: the "last" one, or the "sum" or concatenation ("cat", "cat+input") of all.
    """

    policy: Policy
    rules: tuple[Rule, ...]
    pool: Pool
    domain: Domain = "all"
    lift: Callable[[Tensor, SubgraphBag], Tensor] = lambda x, bag: bag.lift(x)
    residual: bool = False
    jk: str = "last"


def plan_of_terms(
    terms: Sequence[str],
    root_terms: Sequence[str] | None,
    name: str | Policy,
    domain: Domain,
    pooling: str,
    aggregation: dict[str, Any],
) -> Plan:
    """The plan of a list of terms. A name such as "own+local" stands for both terms, "own+folklore" for a sum of functions of two values."""

    def slots(names: Sequence[str]) -> tuple[Slot, ...]:
        found = list[Slot]()
        for name in names:
            parts = tuple(term(part).name for part in name.split("+"))
            found += [Slot(parts, "folklore")] if name in FOLKLORE else [Slot((part,)) for part in parts]
        return tuple(found)

    if not terms or isinstance(terms, str):
        raise ValueError(
            f"terms are {terms!r}, expected a list of at least one name, such as ['own', 'local']; see reign.list_terms()."
        )
    if pooling not in POOLS:
        raise ValueError(f"pooling is {pooling!r}, expected {', '.join(map(repr, POOLS))}.")
    layer = Layer(slots(terms), None if root_terms is None else slots(root_terms), domain, aggregation)
    return Plan(policy(name), (layer,), POOLS[pooling], domain)


def plan_of_model(model: Model) -> Plan:
    """The plan of a model. Norms are left out, because in evaluation mode they are affine maps that the weights can undo."""
    if model.jk == "max":
        raise ValueError("jk='max' has no exact form, because a finite field has no order; use 'cat', 'sum' or 'last'.")
    chosen = copy.deepcopy(model.policy).train(False)
    if len(chosen.draws()) > 1:
        raise ValueError(
            f"policy '{model.policy}' draws subgraphs at random, but exact tests need all subgraphs; leave out eval_draws."
        )
    if getattr(model, "edge_channels", 0):
        raise ValueError(
            f"{type(model).__name__} was made for edge features, but exact tests cover only graphs without edge features."
        )
    if model.virtual_node is not None:
        raise ValueError(f"{type(model).__name__} has a virtual node, which exact tests do not support.")
    rules = tuple(rule_of(layer) for layer in model.layers)
    lift = exact_lift(model)
    return Plan(chosen, rules, pool_of(model.pooling), model.domain, lift, model.residual is not None, model.jk or "last")
