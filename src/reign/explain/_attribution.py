r"""Explanations of the predictions of a run: integrated gradients over x[k, i] and over the edges, and the effect of leaving out subgraphs.

.. math:: a^k_i = \sum_c x^k_{i,c} \int_0^1 \frac{\partial f(\alpha x)}{\partial x^k_{i,c}} d\alpha, \qquad
          a_e = \int_0^1 \frac{\partial f(\alpha w)}{\partial w_e} d\alpha

x[k, i] are the values set by the policy (marks and encoded features), or the inputs of the pooling after the last layer. The weight w of every
edge is 1; with weight 0 it carries no message.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch_geometric.data import Batch, Data

from reign._validate import check
from reign.bags import SubgraphBag
from reign.nn import Model, State
from reign.train.predict.predictor import Predictor
from reign.train.settings.losses import as_values

# -- what an explanation holds -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Attribution:
    """The contributions to one output for one graph.

    Args:
        output: the output, in the units of the target (the logit of a class).
        nothing: the output when every x[k, i] is zero.
        pairs: the contribution of each x[k, i] to the output. They sum to ``output - nothing``, up to the error of the integral.
        member: whether node i is in subgraph k.
        root: the root of each subgraph; -1 if it has none or several anchors.
        edge_index: the edges.
        edges: the contribution of the messages along each edge to the output.
        subgraphs: the decrease of the output when all values of one subgraph are set to zero.
    """

    output: float
    nothing: float
    pairs: Float[Tensor, "subgraphs nodes"]
    member: Tensor
    root: Int[Tensor, "subgraphs"]
    edge_index: Int[Tensor, "2 edges"]
    edges: Float[Tensor, "edges"]
    subgraphs: Float[Tensor, "subgraphs"]

    @cached_property
    def nodes(self) -> Float[Tensor, "nodes"]:
        """The contribution of each node to the output, summed over all subgraphs."""
        return self.pairs.sum(0)

    @property
    def error(self) -> float:
        """The error of the integral: the difference between the sum of all contributions and ``output - nothing``."""
        return abs(float(self.pairs.sum()) - (self.output - self.nothing))

    def bond(self, i: int, j: int) -> float:
        """The contribution of an edge to the output, summed over both directions."""
        source, target = self.edge_index
        return float(self.edges[((source == i) & (target == j)) | ((source == j) & (target == i))].sum())


def mean_of(parts: list[Attribution]) -> Attribution:
    """The attribution of the mean prediction of several models."""
    means: Any = {name: sum(getattr(part, name) for part in parts) / len(parts) for name in ("output", "nothing")}
    means |= {name: torch.stack([getattr(part, name) for part in parts]).mean(0) for name in ("pairs", "edges", "subgraphs")}
    return replace(parts[0], **means)


# -- integrated gradients ------------------------------------------------------------------------------------------------------

Level = Literal["input", "output"]
AT_ONCE = 200_000  # number of pairs of all copies of a graph that are computed together


def attribute(model: Model, data: Data, output: int = 0, steps: int = 32, level: Level | None = None) -> Attribution:
    """Explain an output of a model for a graph.

    Args:
        model: a model that predicts for graphs; it is switched to evaluation mode.
        data: the graph, with the features that the model takes.
        output: index of the output.
        steps: number of points of the integral.
        level: whether x[k, i] are the values at the "input" of the first layer, or at the "output" of the last layer. If not given, the
            input is used, unless all nodes have the same features: zero features would then be unlike any input that the model has seen.
    """
    if level is None:
        level = "output" if bool((data.x == data.x[:1]).all()) else "input"
    check("level", level, level in ("input", "output"), "'input' or 'output'")
    if model.task_level != "graph":
        raise ValueError(f"the model has task_level='{model.task_level}', expected a model with task_level='graph'.")
    if model.out_channels is None or not 0 <= output < model.out_channels:
        raise ValueError(f"output is {output}, expected 0 to {(model.out_channels or 0) - 1}: one of the outputs of the model.")
    model.eval()
    single = _Copies(model, data, 1, level)
    n, m, rows = single.bag.num_nodes, len(single.bag), single.bag.num_pairs
    per = max(1, AT_ONCE // max(rows, 1))
    points = (torch.arange(steps, dtype=torch.float64) + 0.5) / steps
    with torch.no_grad():
        whole, nothing = (float(single.run(values)[0, output]) for values in (single.h, torch.zeros_like(single.h)))
    pair_sum = torch.zeros(rows, dtype=torch.float64)
    edge_sum = torch.zeros(data.num_edges, dtype=torch.float64)
    for part in points.split(per):
        copies = _Copies(model, data, part.numel(), level)
        pair_sum += copies.pair_gradient(part, output)
        edge_sum += copies.edge_gradient(part, output)
    left_out = []
    for subs in torch.arange(m).split(per):
        copies = _Copies(model, data, subs.numel(), level)
        with torch.no_grad():
            left_out.append(copies.run(copies.h * ~_of_subgraph(copies.bag, subs, m)[:, None])[:, output].double())
    bag = single.bag
    dense = torch.zeros(m, n, dtype=torch.float64).index_put_((bag.sub, bag.node), pair_sum / steps)
    member = torch.zeros(m, n, dtype=torch.bool).index_put_((bag.sub, bag.node), bag.member)
    root = bag.anchor[:, 0] if bag.anchor.size(1) == 1 else torch.full((m,), -1)
    without = torch.cat(left_out) if left_out else torch.zeros(0, dtype=torch.float64)
    return Attribution(whole, nothing, dense, member, root, data.edge_index, edge_sum / steps, whole - without)


class _Copies:
    """Several copies of one graph as a batch, whose values and edges can be changed copy by copy."""

    def __init__(self, model: Model, data: Data, number: int, level: Level) -> None:
        self.model, self.number, self.level = model, number, level
        one = Data(x=data.x, edge_index=data.edge_index, edge_attr=data.edge_attr)
        self.batch: Any = Batch.from_data_list([one] * number)
        self.bag: SubgraphBag = model.policy.draws()[0].from_data(self.batch, domain=model.domain)
        with torch.no_grad():
            if level == "input":
                self.h = model.lift(model.encode(self.batch.x), self.bag)
            else:
                with _replaced(model, "readout", lambda state, ends: state.h):
                    self.h = model.predict(self.batch.x, self.bag)

    def run(self, h: Tensor) -> Tensor:
        """The outputs of all copies with other values of pairs."""
        if self.level == "output":
            return self.model.readout(State(h, self.bag, self.model.domain))
        with _replaced(self.model, "lift", lambda x, bag: h):
            return self.model.predict(self.batch.x, self.bag)

    def pair_gradient(self, points: Tensor, output: int) -> Tensor:
        """The value of each pair times its gradient, summed over the copies. Copy s has all values multiplied by ``points[s]``."""
        h = (self.h * points.to(self.h.dtype)[self.bag.pair_batch][:, None]).requires_grad_()
        (gradient,) = torch.autograd.grad(self.run(h)[:, output].sum(), h)
        return (gradient * self.h).sum(1).double().view(self.number, -1).sum(0)

    def edge_gradient(self, points: Tensor, output: int) -> Tensor:
        """The gradient of the weight of each edge, summed over the copies. Copy s has the edge weights ``points[s]``."""
        weight = points.to(self.h.dtype)[self.batch.batch[self.batch.edge_index[0]]].requires_grad_()
        out = self.model.predict(self.batch.x, self.bag.weighted(weight))[:, output].sum()
        (gradient,) = torch.autograd.grad(out, weight, allow_unused=True)
        found = torch.zeros_like(weight) if gradient is None else gradient
        return found.double().view(self.number, -1).sum(0)


@contextmanager
def _replaced(model: Model, method: str, by: Callable[..., Tensor]) -> Iterator[None]:
    """A context in which a method of a model is replaced."""
    setattr(model, method, by)
    try:
        yield
    finally:
        delattr(model, method)


def _of_subgraph(bag: SubgraphBag, subs: Tensor, m: int) -> Tensor:
    """Which pairs belong to subgraph ``subs[s]`` of copy s."""
    chosen = torch.zeros(len(bag), dtype=torch.bool).index_fill_(0, torch.arange(subs.numel()) * m + subs, True)
    return chosen[bag.sub]


# -- a check: deleting the nodes with the highest scores must change a prediction more than deleting random nodes --------------

Predict = Callable[[list[Data]], Float[Tensor, "graphs"]]


def without_nodes(data: Data, nodes: Int[Tensor, "deleted"]) -> Data:
    """A graph without some nodes, and without their edges."""
    keep = torch.ones(int(data.num_nodes or 0), dtype=torch.bool).index_fill_(0, nodes, False)
    new = keep.cumsum(0) - 1
    edges = keep[data.edge_index].all(0)
    return Data(
        x=data.x[keep],
        edge_index=new[data.edge_index[:, edges]],
        edge_attr=None if data.edge_attr is None else data.edge_attr[edges],
    )


def deletion(
    predict: Predict,
    graphs: Sequence[Data],
    scores: Sequence[Float[Tensor, "_"]],
    numbers: Sequence[int] = (1, 2, 3, 4, 5),
    draws: int = 10,
    seed: int = 0,
) -> dict[str, Float[Tensor, "graphs numbers"]]:
    """The change of predictions when nodes are deleted: those with the largest scores, those with the smallest, and random ones.

    Args:
        predict: function that returns the prediction for each of some graphs.
        graphs: the graphs. Graphs that would have fewer than two nodes left are not used.
        scores: a score for each node of each graph; only absolute values matter.
        numbers: numbers of nodes to delete.
        draws: number of random choices, over which the change is averaged.
        seed: seed of these choices.
    """
    rng = torch.Generator().manual_seed(seed)
    chosen = [(g, s) for g, s in zip(graphs, scores, strict=True) if int(g.num_nodes or 0) >= max(numbers) + 2]
    full = predict([g for g, _ in chosen])

    def change(order: Callable[[Tensor], Tensor]) -> Tensor:
        orders = [order(s) for _, s in chosen]
        columns = [predict([without_nodes(g, o[:number]) for (g, _), o in zip(chosen, orders, strict=True)]) for number in numbers]
        return (torch.stack(columns, dim=1) - full[:, None]).abs()

    return {
        "largest": change(lambda s: s.abs().argsort(descending=True)),
        "random": torch.stack([change(lambda s: torch.randperm(s.numel(), generator=rng)) for _ in range(draws)]).mean(0),
        "smallest": change(lambda s: s.abs().argsort()),
    }


# -- explanations of the predictions of a run ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Explanation:
    """The explanation of a prediction for a graph.

    Args:
        target: the target, or the class.
        prediction: the prediction of the run: a number, or the probability of a class.
        parts: the attribution, averaged over the models of the run; for classes, the attribution of the logit.
        name: what the prediction is called: that of a run with a forest, too, is "prediction of the models, without the forest".
    """

    target: str
    prediction: float
    parts: Attribution
    name: str = "prediction"


def explain(
    predictor: Predictor, data: Data, target: str | None = None, steps: int = 32, level: Level | None = None
) -> Explanation:
    """Explain the prediction of a run for a graph; that of the models alone for a run with a forest or a Gaussian process, too, which read no graph.

    Args:
        predictor: the run, as returned by ``reign.load``.
        data: the graph.
        target: the target, or the class of a multiclass run; the first target, or the predicted class, if not given.
        steps: number of points of the integral.
        level: the values x[k, i] to use, "input" or "output"; see ``attribute``.
    """
    names = predictor.classes or predictor.targets
    if target is not None and target not in names:
        raise ValueError(f"the run has no target '{target}'; it has {', '.join(names)}.")
    outs = predictor.outputs([data])[:, 0]
    best = int(outs.softmax(-1).mean(0).argmax()) if predictor.classes else 0
    index = best if target is None else names.index(target)
    found = []
    for trained in predictor.models:
        part = attribute(trained.model, data, index, steps, level)
        scale = trained.scale.deviation[index if trained.scale.deviation.numel() > 1 else 0].item()
        shift = trained.scale.mean[index if trained.scale.mean.numel() > 1 else 0].item()
        found.append(_scaled(part, scale, shift))
    name = f"prediction of the models, without {predictor.beside_words}" if predictor.partners else "prediction"
    return Explanation(names[index], float(as_values(outs, predictor.task).mean(0)[index]), mean_of(found), name)


def _scaled(part: Attribution, scale: float, shift: float) -> Attribution:
    """The same attribution in the units of the target."""
    numbers = {name: getattr(part, name) * scale + shift for name in ("output", "nothing")}
    return replace(part, **numbers, pairs=part.pairs * scale, edges=part.edges * scale, subgraphs=part.subgraphs * scale)
