"""3-IGN programs of the selection policies and of ReIGN(2) layers.

The output of a policy's program is exactly the bag, with its members: the paper's proof of its first lemma. The programs of layers are the paper's proof that
3-IGNs implement ReIGN(2), with corrections.
"""

import torch
from torch import Tensor
from torch_geometric.data import Data

import reign.policies
from reign.bags import DenseBag
from reign.nn import SubgraphConv, term
from reign.policies import EgoNets, NodeDeletion, NodeMarking, Null, Policy
from reign.theory._ign import graph_tensor
from reign.theory._ign3_program import LINKS, Program, Step, clip, gate, keep, logical_and, place, route
from reign.theory._linear_layers import SUMS, TABLE, activation, weights_of
from reign.theory._wl import check_simple

SUBGRAPH, GRAPH = 0, 1  # channels of links: in the subgraph, and in the graph
MEMBER = 2  # channel of the links (k, k, i) into roots: whether node i is in subgraph k
_ONE, _TWO = 2, 3  # scratch, of the links between other nodes


def lift(data: Data, channels: int, marks: int) -> Tensor:
    """The graph, copied into every subgraph: one layer from order 2 to order 3."""
    check_simple(data)
    return lift_step(channels, marks, data.num_features)(graph_tensor(Data(x=data.x.double(), edge_index=data.edge_index)))


def lift_step(channels: int, marks: int, features: int) -> Step:
    """The step that copies a graph into every subgraph. Channels for marks are left free in front of features."""
    nodes = torch.zeros(channels, features + 1, dtype=torch.float64)
    nodes[marks : marks + features, :features] = torch.eye(features, dtype=torch.float64)
    links = torch.zeros(channels, features + 1, dtype=torch.float64)
    links[[SUBGRAPH, GRAPH], features] = 1
    ops = {"aa->aaa": nodes, "bb->abb": nodes, "ab->aab": links, "ba->aba": links, "bc->abc": links}
    return Step(channels, {op[-3:]: [(op, matrix)] for op, matrix in ops.items()})


def policy_program(policy: str | Policy, channels: int, features: int) -> Program:
    """Steps that turn the lifted graph into the bag of a policy: null, nd, nm, ego:h or ego+:h.

    Args:
        policy: a policy of the class Pi of the paper, or null.
        channels: number of channels of the cube, at least marks + features + 1, and at least 4.
        features: number of channels of node features.
    """
    chosen = reign.policies.policy(policy)
    if chosen.mark == "distance" or not isinstance(chosen, Null | NodeDeletion | NodeMarking | EgoNets):
        raise ValueError(
            f"no construction is known for policy '{chosen}': the paper's lemma covers null, nd, nm, ego:h and ego+:h."
        )
    reach = chosen.num_marks + features
    if channels < max(reach + 1, 4):
        raise ValueError(f"channels is {channels}, expected at least {max(reach + 1, 4)} for '{chosen}' with {features} features.")
    program = Program()
    if not isinstance(chosen, EgoNets):
        program += Step(channels, bias={"aab": {MEMBER: 1.0}})
    if isinstance(chosen, NodeDeletion):  # the root has no links
        drop = keep(channels, SUBGRAPH)
        program += Step(channels, {o: [(f"{o}->{o}", drop)] for o in ("aab", "aba")})
    if isinstance(chosen, EgoNets):
        program += _ego_nets(channels, reach, chosen.num_hops)
    if chosen.mark:  # two channels in front: [1, 0] at the root, [0, 1] elsewhere; or the first one alone
        program += Step(channels, bias={"aaa": {0: 1.0}, "abb": {1: 1.0} if chosen.mark is True else {}})
    return program


def _ego_nets(channels: int, reach: int, hops: int, clear: bool = True) -> Program:
    """Breadth-first search, then the links between reached nodes.

    Between hops the first scratch channel is not cleared, so that it is 1, 3, 7, ... in place of 1. The pattern of reached nodes stays exact,
    because what is added to it is clipped. ``clear=False`` is the construction as printed: the channel is not cleared before the
    extraction either, and links have the values 5, 13, 29, ... in place of 1.
    """
    one, same = torch.ones(1, 1, dtype=torch.float64), torch.eye(channels, dtype=torch.float64)
    node = [("abb->abb", keep(channels, reach))]
    program = Program([Step(channels, {"abb": [*node, ("aab->abb", place(channels, one, GRAPH, reach))]})])
    for _ in range(hops - 1):
        program += Step(channels, {"abc": [("abc->abc", same), ("acc->abc", place(channels, one, reach, _ONE))]})
        program += logical_and(channels, "abc", GRAPH, _ONE, _ONE)
        program += Step(channels, {"abb": [("abb->abb", same), ("abc->abb", place(channels, one, _ONE, reach))]})
        program += clip(channels, "abb", reach)
    for source, channel in (("abb", _ONE), ("acc", _TWO)):
        scratch = keep(channels, channel) if clear else same
        program += Step(channels, {"abc": [("abc->abc", scratch), (f"{source}->abc", place(channels, one, reach, channel))]})
        program += logical_and(channels, "abc", SUBGRAPH, channel, SUBGRAPH)
    last = {
        "abb": node,
        "aab": [("aab->aab", same), ("abb->aab", place(channels, one, reach, MEMBER))],
        "abc": [("abc->abc", keep(channels, _ONE, _TWO))],
    }
    return program + Step(channels, last)


def has_roots(policy: Policy) -> bool:
    """Whether roots are members of their subgraphs."""
    return not isinstance(policy, NodeDeletion)


def run_policy(data: Data, policy: str | Policy, channels: int | None = None) -> DenseBag:
    """Run the 3-IGN program of a policy, and return its bag as the paper's tensors."""
    chosen = reign.policies.policy(policy)
    width = chosen.num_marks + data.num_features
    channels = channels or max(width + 1, 4)
    return to_bag(
        policy_program(chosen, channels, data.num_features)(lift(data, channels, chosen.num_marks)), width, has_roots(chosen)
    )


def to_bag(Y: Tensor, width: int, roots: bool = True) -> DenseBag:
    """Read a cube as a bag: links off the diagonal plane, nodes on it. ``roots`` says whether roots are members."""
    n = Y.size(0)
    nodes = torch.arange(n)
    A = Y[..., SUBGRAPH].clone()
    A[:, nodes, nodes] = 0
    member = Y[nodes, nodes, :, MEMBER] == 1
    member[nodes, nodes] = roots
    return DenseBag(A, Y[:, nodes, nodes, :width], member)


# -- layers --------------------------------------------------------------------------------------------------------------------

# Global terms need one step. A local term needs three: its values are broadcast to the links (k, i, j), gated by the connectivity, and
# summed over j. The value at a link depends only on the term: ``needle@Ak`` puts x[j, i] there, for every kind of link. Sums over members
# need no steps of their own: values outside subgraphs are gated to zero before (``members_program``), as the paper gates them by the pattern of
# reached nodes in its programs of GNN-AK, GNN-AK-ctx and NGNN.


# the source of a term that is not local: for the target (a, b, b) off the diagonal, and (a, a, a) on it
GLOBAL: dict[str, tuple[list[str], list[str]]] = {
    "own": (["abb"], ["aaa"]),
    "transpose": (["baa"], ["aaa"]),
    "root": (["aaa"], ["aaa"]),
    "node_root": (["bbb"], ["aaa"]),
    "readout_strict": (["acc"], ["acc"]),
    "needle_strict": (["cbb"], ["caa"]),
    "node_readout_strict": (["bcc"], ["acc"]),
    "root_needle_strict": (["caa"], ["caa"]),
    "roots": (["ccc"], ["ccc"]),
    "non_roots": (["cdd"], ["cdd"]),
}
for _name, _parts in SUMS.items():
    (_off, _on), (_off_too, _on_too) = (GLOBAL[_part] for _part in _parts.split(" + "))
    GLOBAL[_name] = _off + _off_too, _on + _on_too
# the pair whose values a local term sums, in the letters of the target (k, i) and the neighbour j, and the links it sums over
_PAIRS = {"readout": "kj", "needle": "ji", "node_readout": "ij", "root_needle": "jk", "roots": "jj", "non_roots": "ji"}
LOCAL: dict[str, tuple[str, int]] = {
    term(f"{name}@{where}").name: (pair, links)
    for where, links in (("Ak", SUBGRAPH), ("A", GRAPH))
    for name, pair in _PAIRS.items()
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
