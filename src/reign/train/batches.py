"""Which graphs are processed together: batches, the share of each process, and parts of bounded size."""

from collections.abc import Iterator

import torch
from jaxtyping import Int
from torch import Tensor, nn

from reign.bags import SharedGraph, SubgraphBag, free_memory
from reign.data import GraphPack, Ids
from reign.nn import Model
from reign.policies import Policy

# measured for SUN, DS, DSS and ReIGN(2); accurate to within 20 %
MAPS = 350  # bytes of the bag and its index maps for each pair
ALIVE = 4  # number of hidden states in memory while a layer predicts, in addition to one for each term
STATES = 8  # number of hidden states that a layer keeps for the backward pass


def shuffled(ids: Ids, size: int, seed: int) -> Iterator[Ids]:
    """All graphs in batches, in an order that depends only on the seed."""
    yield from ids[torch.randperm(ids.numel(), generator=torch.Generator().manual_seed(seed))].split(size)


def bag_of(model: Model, graphs: GraphPack, ids: Ids) -> SubgraphBag:
    """The bag that a model makes of some graphs."""
    b = graphs.batch(ids)
    return model.policy(b.x, b.edge_index, b.edge_attr, b.batch, batch_size=b.size, domain=model.domain)


def share(ids: Ids, rank: int, world: int) -> Ids:
    """The part of a batch that one process works on."""
    return ids[rank::world]


def pairs_of(model: nn.Module, graphs: GraphPack) -> Int[Tensor, "graphs"]:
    """The number of pairs (subgraph, node) of each graph, or an upper bound if only members or samples are used."""
    policy = getattr(model, "policy", None)
    if not isinstance(policy, Policy):
        return graphs.sizes.cpu()
    policy.eval()  # in evaluation mode all subgraphs are used
    found = []
    for ids in torch.arange(len(graphs)).split(512):
        b = graphs.batch(ids)
        graph = SharedGraph.build(b.x, b.edge_index, None, b.batch, b.size)
        found.append((policy.num_subgraphs(graph) * graph.sizes).cpu())
    policy.train(model.training)
    return torch.cat(found)


def parts(ids: Ids, pairs: Int[Tensor, "graphs"], bound: int) -> list[Ids]:
    """Split a batch into parts of at most ``bound`` pairs, or of one graph. ``pairs`` holds the number of pairs of every graph.

    >>> [part.tolist() for part in parts(torch.tensor([0, 2, 1]), torch.tensor([4, 9, 4]), 8)]
    [[0, 2], [1]]
    """
    out: list[list[int]] = [[]]
    total = 0
    for g, cost in zip(ids.tolist(), pairs[ids].tolist(), strict=True):
        if out[-1] and total + cost > bound:
            out.append([])
            total = 0
        out[-1].append(g)
        total += cost
    return [torch.tensor(part, dtype=torch.long) for part in out]


def bytes_of_a_pair(model: nn.Module, training: bool = False) -> int:
    """The memory of each pair in bytes: index maps, the hidden states of one layer, and in training those kept for the backward pass."""
    item = next((p.element_size() for p in model.parameters()), 4)
    terms = max((len(getattr(layer, "terms", ())) for layer in getattr(model, "layers", ())), default=0)
    kept = STATES * getattr(model, "num_layers", 1) if training else 0
    return MAPS + (ALIVE + terms + kept) * getattr(model, "hidden_channels", 64) * item


def affordable_pairs(model: nn.Module, device: torch.device) -> int:
    """A conservative estimate of the number of pairs that a training step can process in half of the free memory."""
    width, layers = getattr(model, "hidden_channels", 64), getattr(model, "num_layers", 1)
    item = next((p.element_size() for p in model.parameters()), 4)
    return max(1, int(0.5 * free_memory(device)) // (STATES * layers * width * item))
