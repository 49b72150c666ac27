"""A ReIGN(2) layer as a 3-IGN program (the paper's proof that 3-IGNs implement ReIGN(2), with corrections).

Global terms need one step. A local term needs three: its values are broadcast to the links (k, i, j), gated by the connectivity, and
summed over j. The value at a link depends only on the term: ``needle@Ak`` puts x[j, i] there, for every kind of link. Sums over members
need no steps of their own: values outside subgraphs are gated to zero before (``members_program``), as the paper gates them by the pattern of
reached nodes in its programs of GNN-AK, GNN-AK-ctx and NGNN.
"""

import torch
from torch import Tensor

from reign.nn import SubgraphConv
from reign.theory._ign3_policies import GRAPH, MEMBER, SUBGRAPH
from reign.theory._ign3_program import LINKS, Program, Step, gate, keep, place, route
from reign.theory._linear_layers import TABLE, activation, weights_of

# the source of a term that is not local: for the target (a, b, b) off the diagonal, and (a, a, a) on it
GLOBAL: dict[str, tuple[list[str], list[str]]] = {
    "own": (["abb"], ["aaa"]),
    "transpose": (["baa"], ["aaa"]),
    "root": (["aaa"], ["aaa"]),
    "node_root": (["bbb"], ["aaa"]),
    "readout_strict": (["acc"], ["acc"]),
    "readout": (["acc", "aaa"], ["acc", "aaa"]),
    "needle_strict": (["cbb"], ["caa"]),
    "needle": (["cbb", "bbb"], ["caa", "aaa"]),
    "node_readout_strict": (["bcc"], ["acc"]),
    "node_readout": (["bcc", "bbb"], ["acc", "aaa"]),
    "root_needle_strict": (["caa"], ["caa"]),
    "root_needle": (["caa", "aaa"], ["caa", "aaa"]),
    "roots": (["ccc"], ["ccc"]),
    "non_roots": (["cdd"], ["cdd"]),
    "total": (["cdd", "ccc"], ["cdd", "ccc"]),
}
# the pair whose values a local term sums, in the letters of the target (k, i) and the neighbour j, and the links it sums over
LOCAL: dict[str, tuple[str, int]] = {
    "local": ("kj", SUBGRAPH),
    "needle@Ak": ("ji", SUBGRAPH),
    "node_readout@Ak": ("ij", SUBGRAPH),
    "root_needle@Ak": ("jk", SUBGRAPH),
    "roots@Ak": ("jj", SUBGRAPH),
    "non_roots@Ak": ("ji", SUBGRAPH),
    "readout@A": ("kj", GRAPH),
    "needle@A": ("ji", GRAPH),
    "node_readout@A": ("ij", GRAPH),
    "root_needle@A": ("jk", GRAPH),
    "roots@A": ("jj", GRAPH),
    "non_roots@A": ("ji", GRAPH),
}
LETTERS = {"aab": {"k": "a", "i": "a", "j": "b"}, "aba": {"k": "a", "i": "b", "j": "a"}, "abc": {"k": "a", "i": "b", "j": "c"}}
CLOSED = 3  # channel of links: 1 - connectivity, for the gate


def room(layer: SubgraphConv) -> int:
    """The number of channels that a layer needs: values, result and a first sum on nodes; connectivity, messages and gates on links; and
    then gates on nodes."""
    d, p = layer.in_channels, layer.out_channels
    return max(2 * d + p, CLOSED + 1 + 3 * d, room_of_members(d), room_of_members(p))


def room_of_members(width: int) -> int:
    """The number of channels that ``members_program`` needs."""
    return 3 * width + 1


def members_program(channels: int, width: int, bound: float, roots: bool) -> Program:
    """Steps that set the first channels of nodes outside subgraphs to zero, so that all sums after them are sums over members.

    Args:
        channels: number of channels of the cube.
        width: number of channels that are values.
        bound: an upper bound on the values.
        roots: whether roots are members of their subgraphs.
    """
    closed, one = width, torch.ones(1, 1, dtype=torch.float64)
    outside = Step(
        channels,
        {"abb": [("abb->abb", keep(channels, closed)), ("aab->abb", -place(channels, one, MEMBER, closed))]},
        {"abb": {closed: 1.0}},
    )
    if not roots:
        outside.maps["aaa"] = [("aaa->aaa", keep(channels, *range(width)))]
    return Program([outside]) + gate(channels, "abb", closed, 0, width, width + 1, bound)


def layer_program(layer: SubgraphConv, channels: int, bound: float) -> Program:
    """Steps that compute a linear ReIGN(2) layer. The first channels of nodes hold the values before, and the outputs after these steps.

    Args:
        layer: a layer of single linear terms of the table, without norms, with ReLU or no activation.
        channels: number of channels of the cube, at least ``room(layer)``.
        bound: an upper bound on all values and sums over neighbours on the given graphs.
    """
    d, p = layer.in_channels, layer.out_channels
    acc, first = d, d + p
    off = weights_of(layer, False, TABLE)
    on = off if layer.root_terms is None else weights_of(layer, True, TABLE)

    start = Step(channels, {}, {})
    for orbit, terms, side in (("abb", off, 0), ("aaa", on, 1)):
        update = [(f"{orbit}->{orbit}", keep(channels, *range(d, channels)))]
        bias = torch.zeros(channels, dtype=torch.float64)
        bias[acc : acc + p] += terms["bias"]
        for name, weight in terms.items():
            for source in GLOBAL.get(name, ([], []))[side]:
                update.append((f"{source}->{orbit}", place(channels, weight, 0, acc)))
        start.maps[orbit], start.bias[orbit] = update, bias
    program = Program([start])

    for name in dict.fromkeys([*off, *on]):
        if name not in LOCAL:
            continue
        values, connectivity = LOCAL[name]
        w_off, w_on = (terms.get(name, torch.zeros(p, d, dtype=torch.float64)) for terms in (off, on))
        at_roots, origin = values, 0
        if name.startswith("non_roots"):  # two sums in a row: first over j ~ i in every subgraph, then over subgraphs h ~ i
            eye = torch.eye(d, dtype=torch.float64)
            program += _gathered(channels, d, 0, "kj", "kj", connectivity, bound, first, eye, eye, fresh=True)
            origin = first
            if layer.root_terms is not None:  # on the diagonal the table sums x[h, j] over j ~ h
                at_roots = "jj"
        program += _gathered(channels, d, origin, values, at_roots, connectivity, bound, acc, w_off, w_on)

    final = {o: [(f"{o}->{o}", route(channels, (acc, 0, p)))] for o in ("aaa", "abb")}
    relu = {o: list(range(p)) for o in ("aaa", "abb")} if activation(layer) == "relu" else {}
    return program + Step(channels, final, {}, relu)


def _gathered(
    channels: int, d: int, source: int, values: str, at_roots: str, connectivity: int, bound: float, to: int,
    w_off: Tensor, w_on: Tensor, fresh: bool = False,
) -> Program:  # fmt: skip
    """Broadcast, gate, sum: add W times the sum of the given pair over neighbours j to the channels ``to...`` of node (k, i)."""
    message, scratch = CLOSED + 1, CLOSED + 1 + d
    broadcast = Step(channels, {}, {})
    gates = Program()
    for orbit in LINKS:
        letters = LETTERS[orbit]
        pair = at_roots if orbit == "aab" else values
        origin = letters[pair[0]] + 2 * letters[pair[1]]
        closed = keep(channels, CLOSED, *range(message, message + d))
        closed[CLOSED, connectivity] = -1
        broadcast.maps[orbit] = [(f"{orbit}->{orbit}", closed), (f"{origin}->{orbit}", route(channels, (source, message, d)))]
        broadcast.bias[orbit] = {CLOSED: 1.0}
        gates += gate(channels, orbit, CLOSED, message, d, scratch, bound)
    same = keep(channels, *(range(to, to + w_off.size(0)) if fresh else ()))
    off = place(channels, w_off, message, to)
    collect = Step(
        channels,
        {
            "aaa": [("aaa->aaa", same), ("aab->aaa", place(channels, w_on, message, to))],
            "abb": [("abb->abb", same), ("aba->abb", off), ("abc->abb", off)],
        },
    )
    return Program([broadcast]) + gates + collect


def grown(layer: SubgraphConv, bound: float, nodes: int) -> float:
    """A bound on the outputs of a layer, from a bound on its inputs: no term sums more values than there are pairs."""
    total = 0.0
    for on in (False, True):
        weights = weights_of(layer, on, TABLE)
        total += (
            float(weights.pop("bias", torch.zeros(1)).abs().max())
            + sum(spread_of(weight) for weight in weights.values()) * nodes**2 * bound
        )
    return total


def spread_of(weight: Tensor) -> float:
    """The largest factor by which a matrix lets the largest value grow."""
    return float(weight.detach().abs().sum(1).max())
