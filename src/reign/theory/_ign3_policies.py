"""3-IGN programs of the selection policies (the paper's proof of its first lemma). Their output is exactly the bag, with its members."""

import torch
from torch import Tensor
from torch_geometric.data import Data

import reign.policies
from reign.bags import DenseBag
from reign.policies import EgoNets, NodeDeletion, NodeMarking, Null, Policy
from reign.theory._ign import graph_tensor
from reign.theory._ign3_program import Program, Step, clip, keep, logical_and, place
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
    if chosen.mark is True:  # two channels in front: [1, 0] at the root, [0, 1] elsewhere
        program += Step(channels, bias={"aaa": {0: 1.0}, "abb": {1: 1.0}})
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
