"""Mini-batches of one large graph: some nodes, the subgraphs that their predictions depend on, and the part of the graph around them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch_geometric.data import Data

from reign._validate import check, check_count, kind_of, validate
from reign.bags import Domain, SubgraphBag
from reign.kernels import ragged
from reign.policies import Policy, Whole

# -- what the loader reads: facts about a model, numbers of nodes, and lists of neighbours and edges ---------------------


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


# -- the loader ----------------------------------------------------------------------------------------------------------


class RootLoader(DataLoader[int]):
    r"""Loads mini-batches of nodes of one large graph, each with the subgraphs that a model at node level needs for them.

    A batch is a PyG ``Data``, as from PyG's ``NeighborLoader``: the first ``batch_size`` of its nodes are the nodes to predict for, ``n_id`` and
    ``e_id`` are the original numbers of all of its nodes and edges, and all features and targets of nodes and edges are those of the batch.
    It also has ``bag``. ``model(batch)`` returns one row for each of the first ``batch_size`` nodes.

    The bag holds the subgraphs of all nodes within ``halo`` hops of these nodes. If ``halo`` is at least ``model.halo``, predictions are those of the
    whole graph. If ``model.halo`` is None, subgraphs exchange values in layers, and sums over subgraphs range over those of the batch only: predictions
    are estimates. Models with terms such as x[i, i], which need a subgraph of every node, then get one for every node of the batch.

    >>> from torch_geometric.utils import grid
    >>> from reign.nn import IDGNN
    >>> edge_index, _ = grid(30, 30)
    >>> data = Data(x=torch.ones(900, 1), edge_index=edge_index)
    >>> model = IDGNN(1, 8, 2, 3, policy="ego+:2", task_level="node").eval()
    >>> for batch in RootLoader(data, model, batch_size=400):
    ...     print(model(batch).shape, batch.bag.num_subgraphs)
    torch.Size([400, 3]) 400
    torch.Size([400, 3]) 400
    torch.Size([100, 3]) 100

    Args:
        data: the graph, with ``x`` and ``edge_index``. Directions of edges are ignored in the search for nearby nodes.
        model: the model, with ``task_level="node"``. Its policy must be an ego-net policy and its domain "members", unless it works on the graph
            itself (``MPNN``).
        batch_size: number of nodes of a batch to predict for.
        nodes: the nodes to load, as a Boolean mask or as numbers; all if not given.
        halo: number of hops around these nodes within which nodes have subgraphs; ``model.halo`` if not given, or 0 if that is None.
        options: options of ``torch.utils.data.DataLoader``, such as ``shuffle``, ``num_workers`` and ``generator``.
    """

    def __init__(
        self,
        data: Data,
        model: nn.Module,
        batch_size: int = 256,
        *,
        nodes: Bool[Tensor, "nodes"] | Nodes | None = None,
        halo: int | None = None,
        **options: Any,
    ) -> None:
        validate(data)
        check_count("batch_size", batch_size)
        if halo is not None:
            check_count("halo", halo, 0)
        policy, own, self.everywhere, channels = facts(model)
        self.data, self.policy = data, policy
        self.domain: Domain = "all" if isinstance(policy, Whole) and model.domain == "all" else "members"
        self.halo = halo if halo is not None else own or 0
        self.state_bytes = channels * next((p.element_size() for p in model.parameters()), 4)
        source, target = (end.cpu() for end in data.edge_index)
        self._near = Lists(torch.cat([source, target]), torch.cat([target, source]), data.num_nodes)
        self._out = Lists(source, torch.arange(source.numel()), data.num_nodes)
        self._target = target
        self._place = torch.full((data.num_nodes,), -1)
        for name in ("dataset", "collate_fn", "batch_sampler"):
            check(name, options.get(name), name not in options, "nothing, because RootLoader sets it")
        super().__init__(numbers(nodes, data.num_nodes), batch_size, collate_fn=self.batch, **options)  # type: ignore[arg-type]

    def batch(self, nodes: Sequence[int] | Nodes) -> Data:
        """The batch of some distinct nodes, in this order."""
        seeds = torch.as_tensor(nodes, dtype=torch.long)
        rings = self._rings(seeds, self.halo + (self.policy.radius or 0))
        n_id = torch.cat(rings)
        self._place[n_id] = torch.arange(n_id.numel())
        _, edges = self._out.of(n_id)
        e_id = edges[self._place[self._target[edges]] >= 0].sort().values
        edge_index = self._place[self.data.edge_index[:, e_id.to(self.data.edge_index.device)].cpu()]
        self._place[n_id] = -1
        made = Data(n_id=n_id, e_id=e_id, batch_size=seeds.numel())
        for name, value in self.data.items():
            if name == "edge_index" or not isinstance(value, Tensor):
                continue
            rows = n_id if self.data.is_node_attr(name) else e_id if self.data.is_edge_attr(name) else None
            made[name] = value if rows is None else value[rows.to(value.device)]
        made.edge_index = edge_index.to(made.x.device)
        made.bag = self._bag(made, sum(ring.numel() for ring in rings[: self.halo + 1]))
        return made

    def _bag(self, batch: Data, near: int) -> SubgraphBag:
        """The subgraphs of the first ``near`` nodes of a batch."""
        device = batch.x.device
        some = not self.everywhere and not isinstance(self.policy, Whole)
        bag = self.policy(
            batch.x,
            batch.edge_index,
            getattr(batch, "edge_attr", None),
            domain=self.domain,
            state_bytes=self.state_bytes,
            roots=torch.arange(near, device=device) if some else None,
        )
        return replace(bag, targets=torch.arange(batch.batch_size, device=device))

    def _rings(self, seeds: Nodes, hops: int) -> list[Nodes]:
        """The nodes at each distance of at most ``hops`` from the nearest of these nodes. They stay marked in ``_place``."""
        if seeds.unique().numel() < seeds.numel():
            raise ValueError(f"nodes has {seeds.numel()} numbers, expected distinct nodes; a batch predicts once for each node.")
        self._place[seeds] = 0
        rings = [seeds]
        for _ in range(hops):
            _, found = self._near.of(rings[-1])
            ring = found[self._place[found] < 0].unique()
            self._place[ring] = 0
            rings.append(ring)
        return rings


def predict_nodes(
    model: nn.Module,
    data: Data,
    batch_size: int = 256,
    *,
    nodes: Bool[Tensor, "nodes"] | Nodes | None = None,
    halo: int | None = None,
) -> Tensor:
    """The predictions of a model for nodes of one large graph, batch by batch, in evaluation mode and without gradients, on the CPU.

    Args:
        model, data, batch_size, nodes, halo: as for ``RootLoader``.
    """
    mode, device = model.training, next(model.parameters()).device
    model.eval()
    try:
        with torch.no_grad():
            outs = [model(batch.to(device)).cpu() for batch in RootLoader(data, model, batch_size, nodes=nodes, halo=halo)]
    finally:
        model.train(mode)
    return torch.cat(outs)
