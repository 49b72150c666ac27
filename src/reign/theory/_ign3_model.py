"""A whole model as a 3-IGN program: policy, layers, and NGNN's outer network."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from reign.nn import Model, OuterMPNN, State, SubgraphConv
from reign.theory._ign import one_by_one
from reign.theory._ign3_layers import bound_of, layer_program, room
from reign.theory._ign3_policies import lift, policy_program
from reign.theory._ign3_program import Program
from reign.theory._linear_layers import activation, reign2_layer, weights_of
from reign.theory._to_reign2 import to_reign2


class IGN3Model(nn.Module):
    """A model as a 3-IGN program: its policy and all its layers are steps on the cube. Pooling and head are those of the model.

    Attributes:
        program: all steps, from the lifted graph to the final values of roots ("aaa") and other nodes ("abb").
    """

    def __init__(self, model: Model, graphs: Sequence[Data]) -> None:
        super().__init__()
        if model.domain != "all":
            raise ValueError(
                "the construction in 3-IGNs covers only domain='all', because sums over members would need gates on every global sum."
            )
        self.model = copy.deepcopy(model).double().eval()
        if model.task_level != "graph" and isinstance(model.pooling, OuterMPNN):
            raise ValueError(f"the construction of NGNN covers only task_level='graph', got '{model.task_level}'.")
        outer = self.model.pooling if isinstance(self.model.pooling, OuterMPNN) else None
        batch = Batch.from_data_list([Data(x=g.x.double(), edge_index=g.edge_index) for g in graphs])
        bag = self.model.policy.from_data(batch)
        h = self.model.lift(self.model.encode(batch.x), bag)
        stack: list[Any] = [new for layer in self.model.layers for new in to_reign2(layer)]
        stack += [] if outer is None else _outer(outer)
        bounds = []
        with torch.no_grad():
            for layer in stack:
                bounds.append(2 * bound_of(State(h, bag)) + 1)
                h = layer(h, bag)
        marks, features = self.model.policy.num_marks, self.model.in_channels
        self.channels = max([room(layer) for layer in stack] + [marks + features + 1, 4])
        self.program: Program = policy_program(self.model.policy, self.channels, features)
        for layer, bound in zip(stack, bounds, strict=True):
            self.program += layer_program(layer, self.channels, bound)
        self.width = stack[-1].out_channels
        self.has_outer = outer is not None

    def cube(self, data: Data) -> Float[Tensor, "n n n channels"]:
        """The cube of one graph after all steps."""
        encoded = self.model.encode(data.x.double())
        start = lift(Data(x=encoded, edge_index=data.edge_index), self.channels, self.model.policy.num_marks)
        return self.program(start)

    def forward(
        self,
        x: Float[Tensor, "nodes channels"],
        edge_index: Int[Tensor, "2 edges"],
        edge_attr: Tensor | None = None,
        batch: Int[Tensor, "nodes"] | None = None,
        **_: Any,
    ) -> Float[Tensor, "graphs out_channels"]:
        """Predict for a PyG batch of the graphs it was made for."""
        rows = []
        for data in one_by_one(x, edge_index, batch):
            Y, n = self.cube(data), data.num_nodes
            values = Y[:, torch.arange(n), torch.arange(n), : self.width].reshape(n * n, -1)
            state = State(values, self.model.policy.from_data(Data(x=data.x.double(), edge_index=data.edge_index)))
            if self.has_outer:  # after the outer network all subgraphs agree: x[k, i] is the node's value
                pooling: Any = self.model.pooling
                total = state.root.sum(0, keepdim=True)
                pooled = total if pooling.over_graph == "sum" else total / n
                rows.append(pooled if self.model.head is None else self.model.head(pooled))
            else:
                rows.append(self.model.readout(state))
        return torch.cat(rows)


def _outer(pooling: OuterMPNN) -> list[SubgraphConv]:
    """NGNN's outer network as ReIGN(2) layers: broadcast the readouts, then the same message passing on the graph in all subgraphs."""
    if pooling.over_nodes != "sum":
        raise ValueError("the construction covers NGNN only with readout='sum'.")
    d = pooling.out_channels
    eye = torch.eye(d, dtype=torch.float64)
    spread = reign2_layer({"node_readout_strict": eye, "node_root": eye}, {"readout_strict": eye, "own": eye}, None, "all")
    layers = [spread]
    for layer in pooling.layers:
        assert isinstance(layer, SubgraphConv)
        w = weights_of(layer)
        terms = {"own": w["own"], "readout@A": w["local"], "bias": w["bias"]}
        layers.append(reign2_layer(terms, dict(terms), activation(layer), "all"))
    return layers
