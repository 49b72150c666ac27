"""Peers as published, as plain dense formulas in evaluation mode: one graph at a time, x[k, i] a tensor of n x n vectors.

An edge j -> i is ``A[i, j]``; hops ignore the direction of edges. Weights are those of our models, by name.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from reign.nn import Model


@dataclass
class Graph:
    """A graph as matrices: edges, types of edges, hops, members of ego nets, types of nodes."""

    A: Tensor
    B: Tensor
    D: Tensor
    M: Tensor
    t: Tensor

    @property
    def n(self) -> int:
        return self.A.size(0)

    def inside(self) -> Tensor:
        """[k, i, j]: is there an edge j -> i in subgraph k?"""
        return self.M[:, :, None] * self.M[:, None, :] * self.A


def dense(data: Data, hops: int | None) -> Graph:
    n = data.num_nodes
    A, B = torch.zeros(n, n, dtype=torch.float64), torch.zeros(n, n, dtype=torch.long)
    source, target = data.edge_index
    A[target, source], B[target, source] = 1.0, data.edge_attr[:, 0]
    D = torch.where(A + A.t() > 0, 1.0, torch.inf).fill_diagonal_(0)
    for w in range(n):
        D = torch.minimum(D, D[:, [w]] + D[[w], :])
    return Graph(A, B, D, torch.ones_like(A) if hops is None else (hops >= D).double(), data.x[:, 0])


class Net:
    """The weights of a model, by name."""

    def __init__(self, model: Model) -> None:
        self.w = model.state_dict()

    def __contains__(self, name: str) -> bool:
        return name in self.w

    def lin(self, name: str, x: Tensor) -> Tensor:
        return x @ self.w[f"{name}.weight"].t() + self.w.get(f"{name}.bias", 0)

    def bn(self, name: str, x: Tensor) -> Tensor:
        mean, var, weight, bias = (self.w[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return (x - mean) / (var + 1e-5).sqrt() * weight + bias

    def mlp(self, name: str, x: Tensor) -> Tensor:
        hidden = self.lin(f"{name}.lin1", x)
        return self.lin(f"{name}.lin2", (self.bn(f"{name}.norm", hidden) if f"{name}.norm.weight" in self else hidden).relu())

    def gin(self, name: str, x: Tensor, edges: Tensor, table: Tensor | None, g: Graph) -> Tensor:
        """MLP((1 + eps) x[k, i] + the sum of messages along edges [k, i, j]); with types of edges relu(x[k, j] + e)."""
        message = x[:, None].expand(-1, g.n, -1, -1)
        if table is not None:
            message = (message + table[g.B]).relu()
        return self.mlp(f"{name}.mlp", (1 + self.w[f"{name}.eps"]) * x + torch.einsum("kij,kijc->kic", edges, message))

    def head(self, x: Tensor) -> Tensor:
        depth = sum(name.startswith("head.lin") and name.endswith("weight") for name in self.w)
        for place in range(1, depth):
            x = self.lin(f"head.lin{place}", x)
            x = (self.bn(f"head.norm{place}", x) if f"head.norm{place}.weight" in self else x).relu()
        return self.lin(f"head.lin{depth}", x)


def roots(x: Tensor) -> Tensor:
    return x.diagonal(dim1=0, dim2=1).t()


def gnn_ak(net: Net, g: Graph, layers: int, parts: list[str], hops: bool) -> Tensor:
    v = net.w["node_encoder.columns.0.weight"][g.t]
    for t in range(layers):
        here = f"layers.{t}"
        x = v[None].expand(g.n, -1, -1)
        if hops:
            place = net.w[f"{here}.hops.weight"][torch.where(g.M > 0, g.D, 0).long()]
            x = torch.cat([x, place], dim=-1)
        for r in range(2):
            slot = f"{here}.inner.{r}.terms.0"
            new = net.gin(f"{slot}.encoder", x, g.inside(), net.w[f"{here}.edge_encoder.columns.0.weight"], g)
            x = x + net.bn(f"{slot}.norm", new).relu()
        x = net.lin(f"{here}.back", x) if hops else x
        values = []
        for part in parts:
            y = (
                x
                if part == "centroid"
                else net.bn(f"{here}.transform_norms.{part}", net.lin(f"{here}.transforms.{part}", x)).relu()
            )
            y = y * net.lin(f"{here}.gates.{part}", place).sigmoid() if hops else y
            y = y * g.M[:, :, None]
            values.append(roots(y) if part == "centroid" else y.sum(1 if part == "subgraph" else 0))
        v = v + net.bn(f"{here}.norm", net.lin(f"{here}.mix", torch.cat(values, dim=-1))).relu()
    return net.head(v.sum(0))


def sswl(net: Net, g: Graph, layers: int, names: list[str]) -> Tensor:
    x = net.w["node_encoder.columns.0.weight"][g.t] + net.w["labels.embedding.weight"][g.D.clamp(max=5).long()]
    for t in range(layers):
        total = torch.zeros(())
        for s, name in enumerate(names):
            slot = f"layers.{t}.terms.{s}.encoder"
            if name == "uL":
                m = torch.einsum("ij,kijc->kic", g.A, (x[:, None] + net.w[f"{slot}.edge_encoder.columns.0.weight"][g.B]).relu())
            elif name == "vL":
                table = net.w[f"{slot}.edge_encoder.columns.0.weight"][g.B]
                m = torch.einsum("kh,khic->kic", g.A, (x[None] + table[:, :, None]).relu())
            else:
                m = {
                    "vv": roots(x)[None],
                    "uu": roots(x)[:, None],
                    "vu": x.transpose(0, 1),
                    "uG": x.sum(1)[:, None],
                    "vG": x.sum(0),
                }[name]
            total = total + net.mlp(f"{slot}.mlp", (1 + net.w[f"{slot}.eps"]) * x + m)
        x = net.bn(f"layers.{t}.norm", total).relu()
    x = net.mlp(f"layers.{layers}.terms.0.transform", x.sum(1)[:, None].expand_as(x))
    return net.head(net.bn(f"layers.{layers}.norm", x).relu().mean((0, 1)))


def labels(net: Net, g: Graph) -> Tensor:
    """NGNN's spd labels and resistance distances."""
    joined = ((g.A + g.A.t()) > 0).double().fill_diagonal_(0)
    first = torch.where(g.M > 0, g.D + 1, 0).long()
    nearer = torch.einsum("ij,kij->ki", joined, (g.D[:, None, :] == g.D[:, :, None] - 1).double())
    out = net.w["labels.embedding.weight"][first] + net.w["labels.embedding.weight"][torch.where(nearer >= 2, first, 0)]
    if "labels.resistance.weight" in net:
        distance = torch.zeros_like(g.A)
        for k in range(g.n):
            nodes = g.M[k].nonzero().squeeze(1)
            a = joined[nodes][:, nodes]
            inverse, root = torch.linalg.pinv(a.sum(0).diag() - a), int((nodes == k).nonzero())
            distance[k, nodes] = inverse[root, root] + inverse.diagonal() - 2 * inverse[root]
        out = out + net.lin("labels.resistance", distance[:, :, None])
    return out


def ngnn(net: Net, g: Graph, layers: int) -> Tensor:
    x, u = net.w["node_encoder.columns.0.weight"][g.t] + labels(net, g), net.w["virtual_node.start"][0]
    for t in range(layers):
        x, slot = x + u, f"layers.{t}.terms.0"
        new = net.bn(
            f"{slot}.norm", net.gin(f"{slot}.encoder", x, g.inside(), net.w[f"{slot}.encoder.edge_encoder.columns.0.weight"], g)
        )
        if t < layers - 1:
            s = net.mlp(f"virtual_node.mlps.{t}", u + (x * g.M[:, :, None]).sum((0, 1)))
            u, new = net.bn(f"virtual_node.norms.{t}", s).relu(), new.relu()
        x = new
    return net.head(((x * g.M[:, :, None]).sum(1) / g.M.sum(1)[:, None]).mean(0))


def ngnn_tu(net: Net, g: Graph, layers: int, types: int) -> Tensor:
    x, seen = torch.cat([labels(net, g), torch.eye(types, dtype=torch.float64)[g.t].expand(g.n, -1, -1)], dim=-1), []
    for t in range(layers):
        slot = f"layers.{t}.terms.0"
        x = net.bn(f"{slot}.norm", net.gin(f"{slot}.encoder", x, g.inside(), None, g)).relu()
        seen.append((x * g.M[:, :, None]).sum(1) / g.M.sum(1)[:, None])
    return net.head(torch.cat(seen, dim=-1).mean(0)).log_softmax(-1)


def idgnn(net: Net, g: Graph, layers: int, kind: str, types: int) -> Tensor:
    x = torch.eye(types, dtype=torch.float64)[g.t].expand(g.n, -1, -1)
    x = net.bn("layers.0.norm", net.lin("layers.0.terms.0.transform", x)).relu()
    root = torch.eye(g.n, dtype=torch.float64)[:, :, None]
    for t in range(1, layers + 1):
        here, edges = f"layers.{t}", g.inside()
        if kind == "gin":
            own, mine = (net.gin(f"{here}.{branch}.0.encoder", x, edges, None, g) for branch in ("terms", "root_terms"))
            y = own + root * mine
        else:
            maps = "transform" if kind == "id" else "encoder.lin"
            y = net.lin(f"{here}.terms.0.{maps}", x) + root * net.lin(f"{here}.terms.1.{maps}", x)
            if kind == "gcn":
                edges = edges + torch.eye(g.n, dtype=torch.float64) * g.M[:, :, None]
                scale = edges.sum(2).clamp(min=1).rsqrt()
                edges = edges * scale[:, :, None] * scale[:, None, :]
            y = torch.einsum("kij,kjc->kic", edges, y)
        x = net.bn(f"{here}.norm", y).relu()
    x = roots(x)
    return net.head((x / x.norm(dim=1, keepdim=True).clamp(min=1e-12)).sum(0))


def tensor(g: Graph, kind: str, types: int, bonds: int) -> Tensor:
    diagonal = torch.diag_embed(torch.eye(types, dtype=torch.float64)[g.t].t()).permute(1, 2, 0)
    if kind == "degrees":
        degree = g.A.sum(0)
        scale = torch.where(degree > 0, degree.rsqrt(), 0)
        x = (scale[:, None] * g.A * scale)[:, :, None].expand(-1, -1, types + 1)
        return x + torch.cat([torch.zeros_like(x[:, :, :1]), diagonal], dim=-1)
    kinds = torch.eye(bonds, dtype=torch.float64)[g.B] * g.A[:, :, None]
    distance = torch.where(g.D.isinf(), 0, g.D)
    return torch.cat([diagonal, distance[:, :, None], g.A[:, :, None], kinds], dim=-1)


def largest(x: Tensor) -> Tensor:
    off = x[~torch.eye(len(x), dtype=torch.bool)]
    return torch.cat([roots(x).amax(0), off.amax(0) if len(off) else torch.zeros_like(x[0, 0])])


def ppgn(net: Net, x: Tensor, layers: int) -> Tensor:
    for t in range(layers):
        left = right = x
        for r in range(2):
            left, right = net.lin(f"layers.{t}.left.{r}", left).relu(), net.lin(f"layers.{t}.right.{r}", right).relu()
        x = net.lin(f"layers.{t}.skip", torch.cat([x, torch.einsum("kjc,jic->kic", left, right)], dim=-1))
    return net.head(largest(x))


def ign2(net: Net, x: Tensor, layers: int) -> Tensor:
    n = len(x)
    for t in range(layers):
        d, row, column = roots(x), x.mean(1), x.mean(0)
        terms = [
            x,
            x.transpose(0, 1),
            d[:, None],
            d[None],
            row[:, None],
            column[None],
            row[None],
            column[:, None],
            d.mean(0),
            x.mean((0, 1)),
        ]
        y = torch.stack([net.lin(f"layers.{t}.terms.{s}.transform", term).expand(n, n, -1) for s, term in enumerate(terms)]).sum(0)
        mine = [d, d.mean(0), row, column, x.mean((0, 1))]
        on = torch.stack([net.lin(f"layers.{t}.root_terms.{s}.transform", term).expand(n, -1) for s, term in enumerate(mine)]).sum(
            0
        )
        x = (y + torch.eye(n, dtype=torch.float64)[:, :, None] * on[:, None]).relu()
    return net.head(largest(x))
