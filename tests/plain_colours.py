"""Colours the plain way: dictionaries, sorted lists, and the formula of every term as a list of the pairs it sums."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from reign.bags import SubgraphBag

Pair = tuple[int, int]


@dataclass
class PlainBag:
    """Subgraphs of one graph: neighbours in the graph and in each subgraph, roots, and the pairs that count."""

    n: int
    subgraphs: int
    near: list[list[int]]
    near_in: list[list[list[int]]]
    root: list[int] | None
    domain: set[Pair]
    start: dict[Pair, Any]
    roots: list[tuple[int, ...]]
    ordered: bool
    members: list[list[bool]]


def plain_bag(bag: SubgraphBag, domain: str) -> PlainBag:
    """Read off the dense tensors of the paper."""
    dense = bag.to_dense()
    A, x, member = dense.A.tolist(), dense.x.tolist(), dense.member.tolist()
    m, n = len(member), bag.num_nodes
    near_in = [[[j for j in range(n) if A[k][i][j]] for i in range(n)] for k in range(m)]
    source, target = bag.graph.edge_index.tolist()
    near = [[s for s, t in zip(source, target, strict=True) if t == i] for i in range(n)]
    pairs = {(k, i) for k in range(m) for i in range(n) if domain == "all" or member[k][i]}
    root = bag.root.tolist() if bag.anchor.size(1) == 1 else None
    start, roots = {(k, i): tuple(x[k][i]) for k, i in pairs}, [tuple(anchor) for anchor in bag.anchor.tolist()]
    return PlainBag(n, m, near, near_in, root, pairs, start, roots, not bag.policy.unordered, member)


def summed(b: PlainBag, name: str, k: int, i: int, on: bool) -> Iterable[Pair]:
    """The pairs whose values a term sums for the target (k, i); ``on``: the target is a root with terms of its own."""
    V, S, r = range(b.n), range(b.subgraphs), None if b.root is None else b.root[k]
    Ak, A = b.near_in[k][i], b.near[i]
    formulas: dict[str, Callable[[], Iterable[Pair]]] = {
        "own": lambda: [(k, i)],
        "transpose": lambda: [(i, k)],
        "root": lambda: [(k, r)],
        "node_root": lambda: [(i, i)],
        "readout": lambda: [(k, j) for j in V],
        "readout_strict": lambda: [(k, j) for j in V if j != r],
        "needle": lambda: [(h, i) for h in S],
        "needle_strict": lambda: [(h, i) for h in S if h != i],
        "node_readout": lambda: [(i, h) for h in V],
        "node_readout_strict": lambda: [(i, h) for h in V if h != i],
        "root_needle": lambda: [(h, k) for h in S],
        "root_needle_strict": lambda: [(h, k) for h in S if h != k],
        "roots": lambda: [(j, j) for j in V],
        "non_roots": lambda: [(h, j) for h in S for j in V if h != j],
        "total": lambda: [(h, j) for h in S for j in V],
        "local": lambda: [(k, j) for j in Ak],
        "needle@Ak": lambda: [(h, i) for h in Ak],
        "node_readout@Ak": lambda: [(i, h) for h in Ak],
        "root_needle@Ak": lambda: [(h, k) for h in Ak],
        "roots@Ak": lambda: [(j, j) for j in Ak],
        "non_roots@Ak": lambda: [(h, j) for h in Ak for j in b.near_in[h][h if on else i]],
        "readout@A": lambda: [(k, j) for j in A],
        "needle@A": lambda: [(h, i) for h in A],
        "node_readout@A": lambda: [(i, h) for h in A],
        "root_needle@A": lambda: [(h, k) for h in A],
        "roots@A": lambda: [(j, j) for j in A],
        "non_roots@A": lambda: [(h, j) for h in A for j in b.near[h if on else i]],
        "needle_msg": lambda: [(h, j) for j in A for h in S],
        "needle_msg@agg": lambda: [(h, j) for g in S for j in b.near_in[g][i] for h in S],
        "swap_local": lambda: [(h, i) for h in b.near[k]],
        "readout@Vk": lambda: [(k, j) for j in V if b.members[k][j]],
        "needle@Ai": lambda: [(h, i) for h in b.near_in[i][i]],
        "swap_local@Ai": lambda: [(h, i) for h in b.near_in[i][k]],
        "root_msg": lambda: [(k, r)] if r in Ak else [],
        "own_root": lambda: [(k, r)] if i == r else [],
        "local_others": lambda: [(k, j) for j in Ak if j != r],
    }
    return formulas[name]()


def along(b: PlainBag, name: str, place: str, k: int, i: int) -> Iterable[Pair]:
    """The same for a term along a root, in the subgraphs h that have another node in its place; those that do not exist are left out."""
    number = {roots if b.ordered else tuple(sorted(roots)): h for h, roots in enumerate(b.roots)}
    for r in range(len(b.roots[k])) if place == "*" else [int(place) - 1]:
        names = [(*b.roots[k][:r], h, *b.roots[k][r + 1 :]) for h in range(b.n)]
        at = [number.get(name if b.ordered else tuple(sorted(name))) for name in names]
        near_in = [[[]] * b.n if h is None else b.near_in[h] for h in at]
        members = [[False] * b.n if h is None else b.members[h] for h in at]
        one = PlainBag(b.n, b.n, b.near, near_in, list(range(b.n)), set(), {}, [], True, members)
        yield from ((there, j) for h, j in summed(one, name, b.roots[k][r], i, False) if (there := at[h]) is not None)


def values(b: PlainBag, name: str, k: int, i: int, on: bool, c: dict[Pair, int]) -> Iterable[tuple[int, Any]]:
    """What a term sums for the target (k, i), each with its subgraph: colours, or of folklore terms two colours without an order."""
    if name not in ("folklore", "swap_folklore"):
        base, _, place = name.partition(":")
        pairs = along(b, base, place, k, i) if place else summed(b, name, k, i, on)
        yield from ((p[0], c[p]) for p in pairs if p in c)
        return
    for j in b.near[i if name == "folklore" else k]:
        if (k, j) in c and (j, i) in c:
            yield j, tuple(sorted((c[k, j], c[j, i])))


def refine(
    bags: list[PlainBag], terms: list[str], root_terms: list[str] | None, rounds: int, nested: bool = False
) -> Iterable[list[dict[Pair, int]]]:
    """The colours of the pairs of all graphs at the start and after each round.

    ``nested`` keeps the values of each subgraph h in a list of their own, which is not what a sum does.
    """
    names: dict[Any, int] = {}
    colours = [{pair: names.setdefault(("start", x), len(names)) for pair, x in b.start.items()} for b in bags]
    yield colours
    for _ in range(rounds):
        names, new = {}, []
        for b, c in zip(bags, colours, strict=True):
            fresh = {}
            for k, i in sorted(b.domain):
                on = root_terms is not None and b.root is not None and b.root[k] == i
                lists = []
                for t in root_terms if on and root_terms is not None else terms:
                    found = list(values(b, t, k, i, on, c))
                    inner = [tuple(sorted(x for h, x in found if h == g)) for g in sorted({h for h, _ in found})]
                    lists.append(sorted(inner if nested else (x for _, x in found)))
                fresh[k, i] = names.setdefault((on, tuple(map(tuple, lists))), len(names))
            new.append(fresh)
        colours = new
        yield colours


def pool(b: PlainBag, c: dict[Pair, int], pooling: str) -> Any:
    """A graph's colours, as the pooling sees them."""
    if pooling == "roots":
        assert b.root is not None
        return tuple(sorted(c[k, b.root[k]] for k in range(b.subgraphs) if (k, b.root[k]) in c))
    parts = [tuple(sorted(c[k, i] for i in range(b.n) if (k, i) in c)) for k in range(b.subgraphs)]
    return tuple(sorted(parts)) if pooling == "nested" else tuple(sorted(x for part in parts for x in part))


def same_partition(ours: list[int], plain: list[Any]) -> bool:
    """Whether two lists of colours are the same but for the names of colours."""
    return len(set(ours)) == len(set(plain)) == len(set(zip(ours, plain, strict=True)))
