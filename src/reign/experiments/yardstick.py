"""A fixed yardstick for the cost of a layer: SUN written in plain torch_geometric.

The subgraphs are a disjoint union of n copies of the graph, message passing uses PyG, and every mu and gamma is evaluated on
all pair rows; roots are selected afterwards. It uses the weights of one of our models, so that both can be compared.
"""

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINEConv
from torch_geometric.utils import scatter

from reign.bags import SubgraphBag
from reign.nn import GIN, SUN, EncoderSlot


class Union:
    """The bag as a disjoint union, and the indices that a layer needs."""

    def __init__(self, bag: SubgraphBag) -> None:
        union = bag.expand()
        self.edge_index, self.edge_attr = union.edge_index, union.edge_attr
        self.sub, self.node, self.root_row = bag.sub, bag.node, bag.root_row
        self.num_subgraphs, self.num_nodes, self.pairs = bag.num_subgraphs, bag.num_nodes, bag
        # the original connectivity, copied into every subgraph
        via, source, edge = bag.graph.in_edges.expand(bag.node)
        self.full_edge_index = torch.stack([bag.row(bag.sub[via], source), via])
        self.full_edge_attr = bag.graph.edge_attr[edge] if bag.graph.edge_attr is not None else None


class YardstickSUN(nn.Module):
    """SUN (mean needle, GINE) on a union, with the weights of ``model``.

    Args:
        model: one of our SUN models.
        node_level: whether to evaluate the terms of nodes and subgraphs on nodes, as the authors' code does, and not on all pair rows.
    """

    def __init__(self, model: SUN, node_level: bool = False) -> None:
        super().__init__()
        self.model, self.node_level = model, node_level
        weights = {name: value.clone() for name, value in model.state_dict().items()}
        self.convs = nn.ModuleDict()
        for t, layer in enumerate(model.layers):
            for branch in ("terms", "root_terms"):
                for slot in getattr(layer, branch):
                    if isinstance(slot, EncoderSlot) and isinstance(slot.encoder, GIN):
                        self.convs[f"{t} {branch} {slot.name}"] = _conv(slot.encoder)
        model.load_state_dict(weights)  # PyG's constructors draw new weights

    def forward(self, x: Tensor, bag: SubgraphBag, u: Union) -> Tensor:
        """Predict one row per graph."""
        h = bag.lift(self.model.encode(x))
        for t, layer in enumerate(self.model.layers):
            h = self._layer(t, layer, h, u)
        readout = scatter(h, u.sub, dim=0, dim_size=u.num_subgraphs, reduce="mean")
        assert self.model.head is not None
        out: Tensor = self.model.head(scatter(readout, bag.sub_batch, dim=0, dim_size=bag.num_graphs, reduce="mean"))
        return out

    def _layer(self, t: int, layer: nn.Module, h: Tensor, u: Union) -> Tensor:
        root = h[u.root_row]
        readout = scatter(h, u.sub, dim=0, dim_size=u.num_subgraphs, reduce="sum")
        needle = scatter(h, u.node, dim=0, dim_size=u.num_nodes, reduce="mean")
        values = {"own": h, "node_root": root[u.node], "root": root[u.sub], "readout": readout[u.sub]}
        on_root = torch.zeros(h.size(0), dtype=torch.bool, device=h.device).index_fill_(0, u.root_row, True)

        def branch(name: str, roots: bool) -> Tensor:
            total: Tensor | None = None
            for slot in getattr(layer, name):
                if slot.name == "own+local":
                    value = self.convs[f"{t} {name} {slot.name}"](h, u.edge_index, slot.encoder.edge_encoder(u.edge_attr))
                    value = _norm(slot.norm, value, on_root if roots else ~on_root)
                elif slot.name == "needle+needle_msg":
                    conv = self.convs[f"{t} {name} {slot.name}"]
                    if self.node_level:
                        graph = u.pairs.graph
                        value = slot.norm(conv(needle, graph.edge_index, slot.encoder.edge_encoder(graph.edge_attr)))[u.node]
                    else:
                        edge = slot.encoder.edge_encoder(u.full_edge_attr)
                        value = slot.norm(conv(needle[u.node], u.full_edge_index, edge))
                elif self.node_level and slot.name != "own":
                    rows = {"node_root": (root, u.node), "root": (root, u.sub), "readout": (readout, u.sub)}[slot.name]
                    value = slot.transform(rows[0])[rows[1]]
                else:
                    value = slot.transform(values[slot.name])
                total = value if total is None else total + value
            assert total is not None
            return total

        out = branch("terms", False)
        out = out.index_copy(0, u.root_row, branch("root_terms", True)[u.root_row])
        return out.relu()


def _conv(encoder: GIN) -> GINEConv:
    conv = GINEConv(encoder.mlp, train_eps=True)
    conv.eps = encoder.eps
    return conv


def _norm(norm: nn.Module, value: Tensor, rows: Tensor) -> Tensor:
    out = value.clone()
    out[rows] = norm(value[rows])
    return out
