r"""Integrated gradients over x[k, i] and over the edges, and the effect of leaving out subgraphs.

.. math:: a^k_i = \sum_c x^k_{i,c} \int_0^1 \frac{\partial f(\alpha x)}{\partial x^k_{i,c}} d\alpha, \qquad
          a_e = \int_0^1 \frac{\partial f(\alpha w)}{\partial w_e} d\alpha

x[k, i] are the values set by the policy (marks and encoded features), or the inputs of the pooling after the last layer. The weight w of every
edge is 1; with weight 0 it carries no message.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from reign._validate import check
from reign.bags import SubgraphBag
from reign.explain._attribution import Attribution
from reign.nn import Model, State

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
