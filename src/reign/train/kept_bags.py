"""Bags that are kept between epochs on a CPU, where they would otherwise be made again for every batch.

The bags of the first epoch, with the index maps that its steps needed, are kept as they are. From the second epoch on, the bag of a batch is assembled from
them. Validation batches are the same in every epoch, so their bags are kept whole. (``reign.train.resident`` does the same on a GPU.)
"""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Int
from torch import Tensor

from reign.bags import Assembly, BagStore, SubgraphBag, free_memory, maps_of
from reign.data import GraphPack, Ids
from reign.nn import Model
from reign.train.batches import bag_of

if TYPE_CHECKING:
    from reign.train.learner import Learner

SHARE = 1 / 8  # of the free memory, which other runs may need, too
Key = tuple[int, ...]  # the graphs of a batch
BYTES = 500  # for each pair, while the bags of the first epoch are put together (400 for SUN, and 80 afterwards)


class KeptBags:
    """The bags of training and validation graphs.

    Args:
        model: the model, whose policy makes the bags.
        graphs: all graphs.
        validation: the graphs whose bags are kept whole.
    """

    def __init__(self, model: Model, graphs: GraphPack, validation: Ids) -> None:
        self.model, self.graphs = model, graphs
        self._validation = torch.zeros(len(graphs), dtype=torch.bool).index_fill_(0, validation, True)
        self._first: dict[Key, SubgraphBag] | None = {}
        self._assembly: tuple[Assembly, Int[Tensor, "graphs"]] | None = None
        self._whole: dict[Key, SubgraphBag] = {}

    def training(self, ids: Ids) -> SubgraphBag:
        """The bag of a training batch."""
        if self._assembly is not None:
            assembly, places = self._assembly
            return assembly.batch(places[ids])
        if self._first is None:
            return self._made(ids)
        key = tuple(ids.tolist())
        if key not in self._first:  # sharpness-aware gradients need a batch twice
            self._first[key] = self._made(ids)
        return self._first[key]

    def predicting(self, ids: Ids) -> SubgraphBag:
        """The bag of a batch to predict for."""
        key = tuple(ids.tolist())
        bag = self._whole.get(key)
        if bag is None:
            bag = self._made(ids)
            if self._validation[ids].all():
                self._whole[key] = bag
        return bag

    def assemble(self) -> None:
        """After the first epoch: let the bags of all later batches be assembled from those of this one."""
        if not self._first:
            return
        bags, self._first = self._first, None
        usual = max(bags, key=lambda key: bags[key].num_pairs)
        maps = maps_of(bags[usual])
        for key in [key for key, bag in bags.items() if maps and maps_of(bag) != maps]:
            del bags[key]
            bags[usual + key] = self._together(usual + key)
        if maps and all(maps_of(bag) == maps for bag in bags.values()):
            order = torch.tensor([graph for key in bags for graph in key])
            places = torch.zeros(len(self.graphs), dtype=torch.long).index_copy_(0, order, torch.arange(order.numel()))
            self._assembly = Assembly(BagStore(bags.values())), places

    def drop(self) -> None:
        """Free all memory, and keep nothing from now on."""
        self._first = self._assembly = None
        self._whole, self._validation = {}, torch.zeros_like(self._validation)

    def _together(self, key: Key) -> SubgraphBag:
        """The bag of a few graphs together with others. Alone it has other index maps, because small layers run in plain operations."""
        bag = self._made(torch.tensor(key))
        self.model.eval()
        with torch.no_grad():
            self.model.predict(bag.graph.x, bag)  # this builds the index maps; the output is not used
        assert bag.wiring.to_node is not None  # needed for gradients with respect to nodes
        return bag

    def _made(self, ids: Ids) -> SubgraphBag:
        return bag_of(self.model, self.graphs, ids)


def why_not_kept(learner: "Learner") -> str | None:
    """The reason why training does not keep bags between epochs; empty if this needs no explanation; None if it keeps them."""
    model, fabric = learner.model, learner.fabric
    if fabric.device.type != "cpu" or learner.config.eager or not isinstance(model, Model) or model.task_level != "graph":
        return ""
    if fabric.world_size > 1 or model.policy.random:
        return ""  # each process sees other graphs in every epoch; each batch has other subgraphs
    splits = learner.problem.splits
    graphs = torch.cat([splits[name] for name in ("train", "val") if name in splits]).unique()
    needed, limit = BYTES * int(learner.budget.pairs[graphs].sum()), int(SHARE * free_memory(fabric.device))
    if needed > limit:
        return f"to keep them takes about {needed / 1e9:,.1f} GB, and at most {limit / 1e9:,.1f} GB (an eighth of the free memory) are used for this"
    return None
