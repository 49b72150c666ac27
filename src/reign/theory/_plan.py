"""A model as a plan: its policy, and the rules of its layers and pooling, made from its modules or from lists of terms; and how it is run.

The input of the first layer (features, marks, labels, and encodings with rational values) is exact. A rational number is represented modulo
two primes. Equal numbers have equal residues, so different residues prove a difference.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch_geometric.data import Batch, Data

import reign.nn
from reign.bags import Domain, SubgraphBag
from reign.policies import Policy, policy
from reign.theory._algebra import Algebra, Values, features, rows
from reign.theory._families import Pair
from reign.theory._rules import POOLS, ExactState, Pool, Rule, pool_of, rule_of

# -- the input of the first layer ---------------------------------------------------------------------------------------------

PRIMES = (2**31 - 1, 2**31 - 19)
Lift = Callable[[Tensor, SubgraphBag], Tensor]


def exact_lift(model: reign.nn.Model) -> Lift:
    """The map of a model from features of nodes to pairs, with exact labels and encodings. Raise ``ValueError`` if these have no exact form."""
    labels, encodings = model.labels, model.encodings
    if labels is not None and (labels.kind != "hop" or labels.resistance is not None):
        raise ValueError(f"{type(model).__name__} has labels other than hop distances, which exact tests do not support.")
    if encodings is not None:
        if encodings.every_layer or encodings.of_roots is not None:
            raise ValueError(
                f"{type(model).__name__} has encodings before every layer, or another map of them at roots, which exact tests do not support."
            )
        for name in (*encodings.pairs, *encodings.nodes):
            if name.split(":")[0] not in EXACT:
                raise ValueError(
                    f"exact tests do not support the encoding '{name}' of {type(model).__name__}; they support {', '.join(EXACT)}."
                )

    def lift(x: Tensor, bag: SubgraphBag) -> Float[Tensor, "pairs channels"]:
        found = [getattr(model, "exact_lift", model.lift)(x, bag)]
        if labels is not None:
            found += [label[:, None].to(x.dtype) for label in labels.labels(bag)]
        for name in () if encodings is None else (*encodings.pairs, *encodings.nodes):
            kind, _, size = name.partition(":")
            found.append(EXACT[kind](bag, int(size or 0)).to(x.dtype))
        return torch.cat(found, dim=1)

    return lift


def _walks(bag: SubgraphBag, size: int, returns: bool) -> Int[Tensor, "pairs channels"]:
    """Powers of D^-1 A modulo both primes: from the root to the node, or from the node to itself."""
    steps = size or (20 if returns else 21)
    parts = []
    for g in range(bag.num_graphs):
        first, end = bag.graph.ptr[g : g + 2].tolist()
        n = end - first
        source, target = bag.graph.edge_index
        mine = (source >= first) & (source < end)
        A = torch.zeros(n, n, dtype=torch.long).index_put_(
            (source[mine] - first, target[mine] - first), torch.ones(1, dtype=torch.long), accumulate=True
        )
        degrees = A.sum(1).clamp(min=1).tolist()
        powers = []
        for prime in PRIMES:
            scale = torch.tensor([pow(degree, -1, prime) for degree in degrees], dtype=torch.long).view(n, 1)
            step, power = A * scale % prime, torch.eye(n, dtype=torch.long)
            for t in range(steps + 1):
                if t < steps if not returns else t > 0:
                    powers.append(power)
                high = (power >> 16) @ step % prime * 2**16
                power = (high + (power & 0xFFFF) @ step) % prime
        parts.append((first, torch.stack(powers, dim=2)))
    out = torch.zeros(bag.num_pairs, len(PRIMES) * steps, dtype=torch.long)
    for g, (first, values) in enumerate(parts):
        rows = (bag.pair_batch == g).nonzero().squeeze(1)
        node = bag.node[rows] - first
        out[rows] = values[node, node] if returns else values[bag.root[bag.sub[rows]] - first, node]
    return out


EXACT: dict[str, Callable[[SubgraphBag, int], Tensor]] = {
    "hop": lambda bag, size: reign.nn.encoded(
        bag, [f"hop:{size}" if size else "hop"], reign.nn.PAIR_ENCODINGS, "pair", torch.float64
    ),
    "common": lambda bag, _: reign.nn.encoded(bag, ["common"], reign.nn.PAIR_ENCODINGS, "pair", torch.float64),
    "rrwp": lambda bag, size: _walks(bag, size, False),
    "return": lambda bag, size: _walks(bag, size, True),
}


# -- plans --------------------------------------------------------------------------------------------------------------------


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
    aggregation: dict[str, reign.nn.Aggregation],
) -> Plan:
    """The plan of a list of terms. A name such as "own+local" stands for both terms, "own+folklore" for a sum of functions of two values."""

    if not terms or isinstance(terms, str):
        raise ValueError(
            f"terms are {terms!r}, expected a list of at least one name, such as ['own', 'local']; see reign.list_terms()."
        )
    if pooling not in POOLS:
        raise ValueError(f"pooling is {pooling!r}, expected {', '.join(map(repr, POOLS))}.")

    def single(names: Sequence[str]) -> list[str]:
        return [part for name in names for part in ([name] if name in reign.nn.FOLKLORE else name.split("+"))]

    on = None if root_terms is None else single(root_terms)
    with torch.device("meta"):  # no weights are drawn
        layer = reign.nn.SubgraphConv(
            1, 1, single(terms), on, transform="linear", norm=None, domain=domain, aggregation=aggregation
        )
    return Plan(policy(name), (rule_of(layer),), POOLS[pooling], domain)


def plan_of_model(model: reign.nn.Model) -> Plan:
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


# -- runs, round by round -----------------------------------------------------------------------------------------------------

ROWS = 100_000  # number of rows of a bag that is processed at a time, but at least one pair of graphs


def bag_of(plan: Plan, graphs: Sequence[Data]) -> SubgraphBag:
    """The bag of some graphs as one batch."""
    return plan.policy.from_data(
        Batch.from_data_list([Data(x=features(g), edge_index=g.edge_index) for g in graphs]), domain=plan.domain
    )


def trace(
    plan: Plan,
    bag: SubgraphBag,
    algebra: Algebra,
    *,
    endless: bool = False,
    progress: Callable[[Sequence[Rule]], Iterable[Rule]] = iter,
) -> Iterator[tuple[Values, Values, bool]]:
    """The values of pairs and of graphs, at the start and after each round, and whether a layer ends there.

    Args:
        plan: the plan to run.
        bag: the bag of the graphs.
        algebra: colours, or numbers modulo a prime.
        endless: repeat the first layer without end (a block with inner layers until its partition is stable), in place of running all layers once.
        progress: function that wraps the loop over all layers.
    """

    def pooled(values: Int[Tensor, "pairs width"]) -> Int[Tensor, "graphs width"]:
        """The values of graphs, as residues: equal sums of residues can differ by a multiple of the prime."""
        return algebra.scale(("graph",), plan.pool(ExactState(values, bag, plan.domain, algebra)))

    h = algebra.embed(rows(plan.lift(bag.graph.x, bag)), "lift")
    yield h, pooled(h), True
    rules = repeat(plan.rules[0]) if endless else progress(plan.rules)
    last = algebra.linear(("residual",), h) if plan.residual else None
    seen = [h] if plan.jk == "cat+input" else []
    for t, rule in enumerate(rules):
        for out, ends in rule(h, bag, algebra, ("layer", 0 if endless else t), endless):
            new = out if last is None else out + last
            yield new, pooled(_jump(plan.jk, [*seen, new], algebra)), ends
        h = new
        last = None if last is None else new
        seen = [] if plan.jk == "last" else [*seen, new]


def _jump(jk: str, seen: list[Values], algebra: Algebra) -> Values:
    """Jumping knowledge: the values that are pooled."""
    if jk in ("cat", "cat+input"):
        return algebra.linear(("jk",), *seen)
    return sum(seen[1:], seen[0]) if jk == "sum" else seen[-1]


def batches(pairs: Sequence[Pair], plan: Plan) -> Iterator[tuple[list[Pair], list[Data]]]:
    """Split pairs into batches, and list the graphs of each batch once. A batch has up to ``ROWS`` rows, but at least one pair."""
    part: list[Pair] = []
    graphs: dict[int, Data] = {}
    for pair in pairs:
        more = {id(g): g for g in (pair.one, pair.other)}
        rows = sum(g.num_nodes ** (1 + plan.policy.num_anchors) for g in (graphs | more).values())
        if part and (rows > ROWS or pair.one.num_features != part[0].one.num_features):
            yield part, list(graphs.values())
            part, graphs = [], {}
        part.append(pair)
        graphs |= more
    yield part, list(graphs.values())
