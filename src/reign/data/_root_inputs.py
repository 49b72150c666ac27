"""What a ``RootLoader`` reads: the facts about a model, the numbers of nodes, and lists of neighbours and edges."""

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from reign._validate import check, kind_of
from reign.kernels import ragged
from reign.policies import Policy, Whole

Nodes = Int[Tensor, "_"]


def facts(model: Any) -> tuple[Policy, int | None, bool, int]:
    """The policy of a model, its halo, whether it needs a subgraph of every node, and its number of channels.

    ``ValueError`` is raised unless its predictions for nodes can be computed in batches.
    """
    if not all(hasattr(model, name) for name in ("policy", "halo", "needs_every_root", "domain", "task_level")):
        raise ValueError(f"model is {kind_of(model)}, expected a reign.nn.Model; its policy determines which subgraphs are loaded.")
    policy: Policy = model.policy
    check("task_level", model.task_level, model.task_level == "node", "'node', because the batches are batches of nodes")
    if isinstance(policy, Whole):
        if model.halo is None:
            raise ValueError(
                "the model has encodings, a virtual node, terms or convolutions whose messages may come from anywhere in the graph; batches of "
                "nodes are not possible."
            )
        return policy, model.halo, False, model.hidden_channels
    if policy.radius is None or not policy.node_based or policy.random:
        raise ValueError(
            f"policy is '{policy}', expected ego nets such as 'ego+:2', whose subgraphs are small and belong to nodes; the loader samples "
            "them itself."
        )
    if model.domain != "members":
        raise ValueError(
            f"the model has domain='{model.domain}', so its sums range over all nodes of a batch; make it with domain='members'."
        )
    return policy, model.halo, model.needs_every_root, model.hidden_channels


def numbers(nodes: Any, num_nodes: int) -> list[int]:
    """The numbers of the nodes to load."""
    if nodes is None:
        return list(range(num_nodes))
    good = isinstance(nodes, Tensor) and nodes.dim() == 1
    if good and nodes.dtype == torch.bool:
        good = nodes.numel() == num_nodes
        nodes = nodes.nonzero().squeeze(1)
    good = good and nodes.dtype == torch.long and nodes.numel() > 0
    if not good or int(nodes.min()) < 0 or int(nodes.max()) >= num_nodes:
        raise ValueError(
            f"nodes is {kind_of(nodes)}, expected a Boolean mask of the {num_nodes} nodes, or some numbers of nodes from 0 to {num_nodes - 1}."
        )
    found: list[int] = nodes.tolist()
    return found


class Lists:
    """For every node a list of values."""

    def __init__(self, node: Nodes, value: Nodes, num_nodes: int) -> None:
        order = node.argsort(stable=True)
        self.values, self.ptr = value[order], ragged.offsets(torch.bincount(node, minlength=num_nodes))

    def of(self, nodes: Nodes) -> tuple[Nodes, Nodes]:
        """All values of some nodes, each with the position of its node."""
        position, entry = ragged.ranges(self.ptr[nodes], self.ptr[nodes + 1] - self.ptr[nodes])
        return position, self.values[entry]
