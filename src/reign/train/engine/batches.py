"""Which graphs are processed together: batches, the share of each process, and parts of bounded size."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor, nn

from reign.bags import SMALL, Assembly, BagStore, SharedGraph, SubgraphBag, free_memory, maps_of, out_of_memory
from reign.data import GraphPack, Ids
from reign.nn import Model
from reign.policies import Policy
from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import most, several

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


SAMPLE = 32  # graphs whose bags are made to count their pairs


def mean_pairs(model: nn.Module, graphs: GraphPack, bounds: Int[Tensor, "graphs"]) -> float:
    """The mean number of pairs of a graph; for subgraphs of members only, that of some graphs, or of bounds where these do not fit into memory.

    Args:
        model: the model.
        graphs: some graphs.
        bounds: what ``pairs_of`` gives for them.
    """
    if not isinstance(model, Model) or model.domain != "members":
        return float(bounds.double().mean())
    ids = torch.linspace(0, len(graphs) - 1, min(len(graphs), SAMPLE)).long()
    model.policy.eval()
    try:
        return bag_of(model, graphs, ids).num_pairs / ids.numel()
    except (RuntimeError, MemoryError, ValueError) as error:
        if not out_of_memory(error):
            raise
        return float(bounds.double().mean())
    finally:
        model.policy.train(model.training)


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


# -- How much is computed at a time: batches are split at a bound on their number of pairs, which is lowered if memory runs out


T = TypeVar("T")
MANY = 10**9  # messages of a graph in a layer that take so long that this is said in advance
TOO_LARGE = "there is too little memory for this graph"


class GraphTooLarge(ValueError):
    """A graph that does not fit into memory, even alone.

    Args:
        message: what happened, and what to do about it.
        graph: its index in the data set.
        reason: why it does not fit.
    """

    def __init__(self, message: str, graph: int = -1, reason: str = "") -> None:
        super().__init__(message)
        self.graph, self.reason = graph, reason


def why_too_large(model: nn.Module, pairs: int, device: torch.device, training: bool = False) -> str | None:
    """The reason why a graph with this many pairs does not fit into memory, even alone; None if it fits or if this is not known in advance.

    Args:
        model: the model.
        pairs: number of pairs of the graph.
        device: the device whose memory counts.
        training: whether the model learns from the graph, or only predicts for it.
    """
    policy = getattr(model, "policy", None)
    if getattr(model, "domain", "all") == "members" and getattr(policy, "radius", None) is not None:
        return None  # the number of pairs is known only when the bag is made; the policy checks it then
    needed = pairs * bytes_of_a_pair(model, training)
    if pairs < SMALL or needed <= (free := free_memory(device)):
        return None
    return f"which has {pairs:,} pairs (subgraph, node) (about {needed / 1e9:,.1f} GB, where {free / 1e9:,.1f} GB are free)"


class Budget:
    """A bound on the number of pairs (subgraph, node) that are processed together.

    Args:
        model: the model, whose policy determines the number of pairs of a graph.
        graphs: all graphs.
        device: the device whose memory counts.
        bound: the largest number of pairs; estimated from the free memory if not given.
        name: name of the graphs, for messages.
        callback: receives a note when batches are split.
        rows: the table rows of the graphs, for messages.
    """

    def __init__(
        self,
        model: nn.Module,
        graphs: GraphPack,
        device: torch.device,
        bound: int | None,
        name: str,
        callback: Callback,
        rows: Sequence[str] | None = None,
    ) -> None:
        self.model = model
        self.pairs = pairs_of(model, graphs)
        self.device, self.name, self.callback, self.rows = device, name, callback, rows
        self._warn_of_work(graphs)
        self.guessed, self.split = bound is None, False
        self.bound = bound or affordable_pairs(model, device)

    def _warn_of_work(self, graphs: GraphPack) -> None:
        """Give a note, before the work starts, if one graph alone takes very long."""
        if not len(graphs):
            return
        messages = self.pairs // graphs.sizes.cpu().clamp(min=1) * graphs.edge_ptr.diff().cpu()
        if int(messages.max()) > MANY:
            most = int(messages.argmax())
            where = f"Graph {most}" if self.rows is None else f"Row {self.rows[most]}"
            self.callback.note(
                f"{where} of {self.name} has up to {int(self.pairs[most]):,} pairs (subgraph, node), and up to {int(messages[most]):,} messages in each "
                "layer. This can take many minutes; use a policy with fewer or smaller subgraphs, or leave this graph out."
            )

    def together(self, ids: Ids) -> int:
        """The number of pairs of a batch that are processed together, or an upper bound of it."""
        return min(self.bound, int(self.pairs[ids].sum()))

    def parts(self, ids: Ids) -> list[Ids]:
        """Split a batch into parts within the bound."""
        found = parts(ids, self.pairs, self.bound)
        self.split = self.split or len(found) > 1
        if self.split and self.guessed:
            self.guessed = False
            self.callback.note(
                f"The free memory is enough for about {self.bound:,} pairs (subgraph, node) at a time. Larger batches are split, and batch norms "
                "are computed for each part. Use a smaller train.batch_size to avoid this, or set train.max_pairs to split in the same way on "
                "every machine."
            )
        return found

    def equal_parts(self, ids: Ids) -> list[Ids]:
        """As ``parts``, with empty parts added so that all processes have the same number of parts."""
        found = self.parts(ids)
        return found + [ids[:0]] * (most(len(found)) - len(found))

    def within(self, work: Callable[[], T], ids: Ids, undo: Callable[[], None] = lambda: None) -> T:
        """Do some work on a batch. If memory runs out, undo the work and repeat it in smaller parts."""
        while True:
            try:
                return work()
            except (RuntimeError, MemoryError, ValueError) as error:
                if not out_of_memory(error):
                    raise
                reason = str(error).splitlines()[0]
            undo()
            self._lower(ids, reason)

    def check_alone(self, ids: Ids) -> None:
        """Raise ``GraphTooLarge`` in advance if the model cannot predict for the largest graph of a batch, even alone."""
        if ids.numel():
            largest = int(ids[self.pairs[ids].argmax()])
            if what := why_too_large(self.model, int(self.pairs[largest]), self.device):
                raise self._too_large(largest, what)

    def _too_large(self, graph: int, what: str) -> GraphTooLarge:
        where = f"graph {graph}" if self.rows is None else f"row {self.rows[graph]}"
        return GraphTooLarge(
            f"there is too little memory for {where} of {self.name} alone, {what}; use fewer hidden_channels or num_layers, a sampled policy such as "
            "'ego+:3@0.5+mean', or leave this graph out.",
            graph,
            f"{TOO_LARGE}, {what}",
        )

    def _lower(self, ids: Ids, reason: str) -> None:
        if several():  # the other processes wait for this one, and cannot repeat the step
            raise ValueError(
                f"there is too little memory for a batch ({reason}); use a smaller train.batch_size or train.max_pairs."
            )
        pairs = self.pairs[ids]
        used, largest = min(self.bound, int(pairs.sum())), int(pairs.max())
        if used <= largest:
            raise self._too_large(int(ids[pairs.argmax()]), f"which has {largest:,} pairs (subgraph, node) ({reason})")
        self.bound, self.guessed = max(used // 2, largest), False
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.callback.note(
            f"There is too little memory for this batch ({reason}). From now on batches are split at {self.bound:,} pairs."
        )


# -- Bags that are kept between epochs on a CPU, where they would otherwise be made again for every batch --------------
# The bags of the first epoch, with the index maps that its steps needed, are kept as they are. From the second epoch on, the bag of a batch is assembled from
# them. Validation batches are the same in every epoch, so their bags are kept whole. (``reign.train.engine.captured`` does the same on a GPU.)


Key = tuple[int, ...]  # the graphs of a batch


class BagSource:
    """Lets a model compute batches of graphs, whose bags are made anew every time.

    Args:
        graphs: all graphs, on the device of the model and in its number format.
    """

    def __init__(self, graphs: GraphPack) -> None:
        self.graphs = graphs

    def learn(self, model: nn.Module, ids: Ids) -> Tensor:
        """The outputs for a training batch."""
        return self.predict(model, ids)

    def predict(self, model: nn.Module, ids: Ids) -> Tensor:
        """The outputs for a batch to predict for."""
        batch = self.graphs.batch(ids)
        out: Tensor = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch, batch.size)
        return out

    def next_epoch(self) -> None:
        """Called before every epoch."""

    def drop(self) -> None:
        """Free all memory that is held between batches, and hold none from now on."""


class BagCache(BagSource):
    """Keeps the bags of training and validation graphs between epochs.

    Args:
        model: the model, whose policy makes the bags.
        graphs: all graphs.
        validation: the graphs whose bags are kept whole.
    """

    def __init__(self, model: Model, graphs: GraphPack, validation: Ids) -> None:
        super().__init__(graphs)
        self.model = model
        self._validation = torch.zeros(len(graphs), dtype=torch.bool).index_fill_(0, validation, True)
        self._first: dict[Key, SubgraphBag] | None = {}
        self._assembly: tuple[Assembly, Int[Tensor, "graphs"]] | None = None
        self._whole: dict[Key, SubgraphBag] = {}

    def learn(self, model: nn.Module, ids: Ids) -> Tensor:
        """The outputs for a training batch."""
        return _outputs(model, self.training(ids))

    def predict(self, model: nn.Module, ids: Ids) -> Tensor:
        """The outputs for a batch to predict for."""
        return _outputs(model, self.predicting(ids))

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

    def next_epoch(self) -> None:
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


def _outputs(model: nn.Module, bag: SubgraphBag) -> Tensor:
    out: Tensor = model(*bag.graph.inputs, bag=bag)
    return out
