"""Peers as published, as plain dense formulas over the arrays and settings of their authors, in evaluation and in training mode.

x[k, i] is a tensor of n x n vectors, and a state a list of such tensors, one for each graph of a batch. An edge j -> i is ``A[i, j]``; hops
ignore the direction of edges. Arrays have the authors' names, and are made when a formula first asks for them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

Config = dict[str, Any]
TYPES, BONDS = 5, 3  # of nodes and edges


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

    @property
    def joined(self) -> Tensor:
        """[i, j]: is there an edge between i and j, in any direction?"""
        return ((self.A + self.A.t()) > 0).double().fill_diagonal_(0)

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


class Arrays:
    """The authors' arrays by name. Norms use their running statistics, or those of the batch, and then note the new running ones."""

    def __init__(self, seed: int = 0) -> None:
        self.arrays, self.after, self.training = dict[str, Tensor](), dict[str, Tensor](), False
        self.rng = torch.Generator().manual_seed(seed)

    def get(self, name: str, *shape: int, scale: float = 1.0, start: float | None = None) -> Tensor:
        """An array of normal numbers, or of such between ``start`` and ``start + scale``."""
        if name not in self.arrays:
            draw = torch.randn if start is None else torch.rand
            self.arrays[name] = draw(shape, generator=self.rng, dtype=torch.float64) * scale + (start or 0.0)
        assert self.arrays[name].shape == shape, name
        return self.arrays[name]

    def table(self, name: str, rows: int, width: int) -> Tensor:
        return self.get(f"{name}.weight", rows, width)

    def eps(self, name: str) -> Tensor:
        return 1 + self.get(name, 1, scale=0.5)

    def lin(self, name: str, xs: list[Tensor], width: int, bias: bool = True, ends: tuple[int, ...] = ()) -> list[Tensor]:
        """A linear map; the weights of convolutions have further dimensions of size 1 at their end."""
        a = xs[0].size(-1)
        weight = self.get(f"{name}.weight", width, a, *ends, scale=1.5 * a**-0.5).flatten(1)
        shift = self.get(f"{name}.bias", width, scale=0.5) if bias else torch.zeros(())
        return [x @ weight.t() + shift for x in xs]

    def bn(self, name: str, xs: list[Tensor], gs: list[Graph] | None = None) -> list[Tensor]:
        """A norm over all members (k, i) of all graphs, or over all rows."""
        rows = torch.cat(xs if gs is None else [x[g.M > 0] for x, g in zip(xs, gs, strict=True)])
        weight, bias = self.get(f"{name}.weight", rows.size(1), start=0.5), self.get(f"{name}.bias", rows.size(1), scale=0.5)
        mean, var = self.get(f"{name}.running_mean", rows.size(1)), self.get(f"{name}.running_var", rows.size(1), start=0.5)
        if self.training:
            self.after[f"{name}.running_mean"] = 0.9 * mean + 0.1 * rows.detach().mean(0)
            self.after[f"{name}.running_var"] = 0.9 * var + 0.1 * rows.detach().var(0)
            mean, var = rows.mean(0), rows.var(0, correction=0)
        return [(x - mean) / (var + 1e-5).sqrt() * weight + bias for x in xs]


def relu(xs: list[Tensor]) -> list[Tensor]:
    return [x.relu() for x in xs]


def add(xs: list[Tensor], ys: list[Tensor]) -> list[Tensor]:
    return [x + y for x, y in zip(xs, ys, strict=True)]


def beside(*parts: list[Tensor]) -> list[Tensor]:
    return [torch.cat(part, dim=-1) for part in zip(*parts, strict=True)]


def roots(x: Tensor) -> Tensor:
    return x.diagonal(dim1=0, dim2=1).t()


def over(x: Tensor, g: Graph, dim: int, mean: bool) -> Tensor:
    """The sum or mean of members over the nodes (dim 1) or the subgraphs (dim 0)."""
    return (x * g.M[:, :, None]).sum(dim) / (g.M.sum(dim)[:, None] if mean else 1)


def whole(x: Tensor, mean: bool) -> Tensor:
    return x.mean(0) if mean else x.sum(0)


def messages(xs: list[Tensor], gs: list[Graph], table: Tensor | None) -> list[Tensor]:
    """The sum over edges j -> i inside of subgraph k of x[k, j], or with types of edges of relu(x[k, j] + e)."""
    found = []
    for x, g in zip(xs, gs, strict=True):
        sent = x[:, None].expand(-1, g.n, -1, -1)
        found.append(torch.einsum("kij,kijc->kic", g.inside(), sent if table is None else (sent + table[g.B]).relu()))
    return found


def lifted(xs: list[Tensor]) -> list[Tensor]:
    return [x[None].expand(len(x), -1, -1) for x in xs]


def one_hot(gs: list[Graph]) -> list[Tensor]:
    return [torch.eye(TYPES, dtype=torch.float64)[g.t] for g in gs]


def gnn_ak(w: Arrays, gs: list[Graph], config: Config) -> Tensor:
    c = config["constructor"]
    width, hop, mean, parts = c["nhid"], c["hop_dim"], c["pooling"] == "mean", sorted(c["embs"])
    v = [w.table("input_encoder.embeddings.0", TYPES, width)[g.t] for g in gs]
    for t in range(c["nlayer_outer"]):
        s, x = f"subgraph_layers.{t}", lifted(v)
        bonds = w.table(f"edge_encoders.{t}.embeddings.0", BONDS, width + hop)
        if hop:
            hops = w.table(f"{s}.hop_embedder", config["hops"] + 2, hop)
            place = [hops[torch.where(g.M > 0, g.D, 0).long() + 1] for g in gs]
            x = beside(x, place)
        for r in range(c["nlayer_inner"]):
            conv, eps = f"{s}.gnns.0.convs.{r}", w.eps(f"{s}.gnns.0.convs.{r}.layer.eps")
            y = add([eps * a for a in x], messages(x, gs, bonds))
            y = relu(w.bn(f"{conv}.nn.norms.0", w.lin(f"{conv}.nn.layers.0", y, width + hop, bias=False), gs))
            y = relu(w.bn(f"{s}.gnns.0.norms.{r}", w.lin(f"{conv}.nn.layers.1", y, width + hop, bias=False), gs))
            x = add(x, y) if c["res"] else y
        if hop:
            x = w.lin(f"{s}.gnns.0.output_encoder.layers.0", x, width)
        values = []
        for part in parts:
            name, y = ("centroid", "subgraph", "context")[part], x
            if part and len(parts) > 1:
                to = f"{s}.{name}_transform"
                y = relu(w.bn(f"{to}.norms.0", w.lin(f"{to}.layers.0", y, width, bias=False), gs))
            if hop:
                y = [a * b.sigmoid() for a, b in zip(y, w.lin(f"{s}.gate_mapper_{name}.0", place, width), strict=True)]
            values.append([roots(a) if not part else over(a, g, 2 - part, mean) for a, g in zip(y, gs, strict=True)])
        if c["embs_combine_mode"] == "concat":
            z = w.lin(f"{s}.out_encoder.layers.0", beside(*values), width, bias=False)
        else:
            z = [torch.stack(value).sum(0) for value in zip(*values, strict=True)]
        z = relu(w.bn(f"norms.{t}", z))
        v = add(v, z) if c["res"] else z
    y = w.lin("output_decoder.layers.0", [torch.stack([whole(a, mean) for a in v])], width, bias=False)
    return w.lin("output_decoder.layers.1", relu(w.bn("output_decoder.norms.0", y)), c["nout"])[0]


def sswl(w: Arrays, gs: list[Graph], config: Config) -> Tensor:
    width, far, layers = config["dim_embed"], config["max_dis"], config["num_layer"]
    types, distances = w.table("encode.embed_v.atom_embedding_list.0", TYPES, width), w.table("encode.embed_d", far + 1, width)
    x = [types[g.t] + distances[g.D.clamp(max=far).long()] for g in gs]

    def mlp(name: str, y: list[Tensor]) -> list[Tensor]:
        return w.lin(f"{name}.output", relu(w.bn(f"{name}.input_nr.bn", w.lin(f"{name}.input", y, width), gs)), width)

    def term(name: str, a: Tensor, g: Graph, t: int) -> Tensor:
        if name in ("uL", "vL"):
            bonds = w.table(f"A{t}.enc.{name}.embed.bond_embedding_list.0", BONDS, width)[g.B]
            if name == "uL":
                return torch.einsum("ij,kijc->kic", g.A, (a[:, None] + bonds).relu())
            return torch.einsum("kh,khic->kic", g.A, (a[None] + bonds[:, :, None]).relu())
        points = {"vv": roots(a)[None], "uu": roots(a)[:, None], "vu": a.transpose(0, 1)}
        return (points | {"uG": a.sum(1)[:, None], "vG": a.sum(0)})[name].expand_as(a)

    for t in range(layers):
        total = [torch.zeros_like(a) for a in x]
        for name in config["layer"]:
            eps = w.eps(f"A{t}.eps.{name}")
            total = add(total, mlp(f"A{t}.mlp.{name}", [eps * a + term(name, a, g, t) for a, g in zip(x, gs, strict=True)]))
        x = relu(w.bn(f"A{t}.nr.bn", total, gs))
    x = mlp(f"A{layers}.mlp.{config['pool']}", [term(config["pool"], a, g, layers) for a, g in zip(x, gs, strict=True)])
    pooled = [torch.stack([a.mean((0, 1)) for a in relu(w.bn(f"A{layers}.nr.bn", x, gs))])]
    return w.lin("pool.predict.output", relu(w.lin("pool.predict.input", pooled, 2 * width)), 2)[0]


def ngnn_labels(w: Arrays, gs: list[Graph], config: Config, prefix: str, width: int) -> list[Tensor]:
    about, found = config["subgraphs"], [torch.zeros(g.n, g.n, width, dtype=torch.float64) for g in gs]
    if config["constructor"].get("use_z", True):
        table = w.table(f"{prefix}z_embedding", about["h"] + 2, width)
        for place, g in enumerate(gs):
            near = torch.where(g.M > 0, g.D, 0).long()
            nearer = torch.einsum("ij,kij->ki", g.joined, (g.D[:, None, :] == g.D[:, :, None] - 1).double())
            spd = table[near + 1] + table[torch.where(nearer >= 2, near + 1, 0)]
            found[place] = table[near] if about["node_label"] == "hop" else spd
    return add(found, w.lin(f"{prefix}rd_projection", [resistance(g) for g in gs], width)) if about["use_rd"] else found


def resistance(g: Graph) -> Tensor:
    distance = torch.zeros(g.n, g.n, 1, dtype=torch.float64)
    for k in range(g.n):
        nodes = g.M[k].nonzero().squeeze(1)
        a = g.joined[nodes][:, nodes]
        inverse, root = torch.linalg.pinv(a.sum(0).diag() - a), int((nodes == k).nonzero())
        distance[k, nodes, 0] = inverse[root, root] + inverse.diagonal() - 2 * inverse[root]
    return distance


def ngnn_tu(w: Arrays, gs: list[Graph], config: Config) -> Tensor:
    c, seen = config["constructor"], []
    x = lifted(one_hot(gs))
    if c["use_z"] or c["use_rd"]:
        x = beside(ngnn_labels(w, gs, config, "", 8), x)
    for t in range(c["num_layers"]):
        conv = "conv1" if t == 0 else f"convs.{t - 1}"
        eps = w.eps(f"{conv}.eps")
        x = add([eps * a for a in x], messages(x, gs, None))
        for lin, norm in (("0", "1"), ("3", "4")):
            x = relu(w.bn(f"{conv}.nn.{norm}", w.lin(f"{conv}.nn.{lin}", x, c["hidden"]), gs))
        seen.append(x)
    pooled = torch.stack([over(a, g, 1, True).mean(0) for a, g in zip(beside(*seen), gs, strict=True)])
    return w.lin("lin2", relu(w.lin("lin1", [pooled], c["hidden"])), c["num_classes"])[0].log_softmax(-1)


def ngnn_ogb(w: Arrays, gs: list[Graph], config: Config) -> Tensor:
    c, pre = config["constructor"], "gnn_node."
    width, layers, virtual = c["emb_dim"], c["num_layer"], c["virtual_node"]
    types = w.table(f"{pre}node_encoder.atom_embedding_list.0", TYPES, width)
    x = add(lifted([types[g.t] for g in gs]), ngnn_labels(w, gs, config, pre, width))
    u = w.table(f"{pre}virtualnode_embedding", 1, width).expand(len(gs), -1) if virtual else torch.zeros(len(gs), 1)
    for t in range(layers):
        x, conv, last = add(x, list(u)), f"{pre}convs.{t}", t == layers - 1
        eps, bonds = w.eps(f"{conv}.eps"), w.table(f"{conv}.edge_encoder.bond_embedding_list.0", BONDS, width)
        y = add([eps * a for a in x], messages(x, gs, bonds))
        y = relu(w.bn(f"{conv}.mlp.1", w.lin(f"{conv}.mlp.0", y, 2 * width), gs))
        y = w.bn(f"{pre}batch_norms.{t}", w.lin(f"{conv}.mlp.3", y, width), gs)
        y = y if last else relu(y)
        y = add(y, x) if c["residual"] else y
        if virtual and not last:
            mlp = f"{pre}mlp_virtualnode_list.{t}"
            s = [u + torch.stack([(a * g.M[:, :, None]).sum((0, 1)) for a, g in zip(x, gs, strict=True)])]
            s = relu(w.bn(f"{mlp}.1", w.lin(f"{mlp}.0", s, 2 * width)))
            s = relu(w.bn(f"{mlp}.4", w.lin(f"{mlp}.3", s, width)))
            u = u + s[0] if c["residual"] else s[0]
        x = y
    means = c["subgraph_pooling"] == "mean", c["graph_pooling"] == "mean"
    pooled = torch.stack([whole(over(a, g, 1, means[0]), means[1]) for a, g in zip(x, gs, strict=True)])
    return w.lin("graph_pred_linear", [pooled], c["num_tasks"])[0]


def idgnn(w: Arrays, gs: list[Graph], config: Config) -> Tensor:
    c = config["cfg"]
    width, kind, x = c["gnn.dim_inner"], c["gnn.layer_type"], lifted(one_hot(gs))
    for t in range(c["gnn.layers_pre_mp"]):
        x = w.lin(f"pre_mp.Layer_{t}.layer.model", x, width, bias=False)
        x = relu(w.bn(f"pre_mp.Layer_{t}.post_layer.0", x, gs))
    own = [torch.eye(g.n, dtype=torch.float64)[:, :, None] for g in gs]
    for t in range(c["gnn.layers_mp"]):
        conv = f"mp.layer{t}.layer.model"
        if kind == "ginidconv":
            m = add([w.eps(f"{conv}.eps") * a for a in x], messages(x, gs, None))
            y, mine = (w.lin(f"{conv}.{nn}.2", relu(w.lin(f"{conv}.{nn}.0", m, width)), width) for nn in ("nn", "nn_id"))
            y = [a + root * b for a, b, root in zip(y, mine, own, strict=True)]
        else:
            size = x[0].size(-1)
            one, other = (w.get(f"{conv}.{name}", size, width, scale=1.5 * size**-0.5) for name in ("weight", "weight_id"))
            y = []
            for a, g, root in zip(x, gs, own, strict=True):
                edges = g.inside()
                if kind == "gcnidconv":
                    edges = edges + torch.eye(g.n, dtype=torch.float64) * g.M[:, :, None]
                    scale = edges.sum(2).clamp(min=1).rsqrt()
                    edges = edges * scale[:, :, None] * scale[:, None, :]
                y.append(torch.einsum("kij,kjc->kic", edges, a @ one + root * (a @ other)))
        x = relu(w.bn(f"mp.layer{t}.post_layer.0", y, gs))
    x = [roots(a) for a in x]
    if c["gnn.l2norm"]:
        x = [a / a.norm(dim=1, keepdim=True).clamp(min=1e-12) for a in x]
    y, head = [torch.stack([whole(a, c["model.graph_pooling"] == "mean") for a in x])], "post_mp.layer_post_mp.model"
    for t in range(c["gnn.layers_post_mp"] - 1):
        y = w.lin(f"{head}.0.Layer_{t}.layer.model", y, width, bias=False)
        y = relu(w.bn(f"{head}.0.Layer_{t}.post_layer.0", y))
    return w.lin(f"{head}.1.model", y, config["constructor"]["dim_out"])[0]


def tensors(gs: list[Graph], config: Config) -> list[Tensor]:
    found = []
    for g, types in zip(gs, one_hot(gs), strict=True):
        diagonal = torch.diag_embed(types.t()).permute(1, 2, 0)
        if config["input"].startswith(f"{TYPES + 1} "):
            degree = g.A.sum(0)
            scale = torch.where(degree > 0, degree.rsqrt(), 0)
            x = (scale[:, None] * g.A * scale)[:, :, None].expand(-1, -1, TYPES + 1)
            found.append(x + torch.cat([torch.zeros_like(x[:, :, :1]), diagonal], dim=-1))
        else:
            kinds = torch.eye(BONDS, dtype=torch.float64)[g.B] * g.A[:, :, None]
            distance = torch.where(g.D.isinf(), 0, g.D)
            found.append(torch.cat([diagonal, distance[:, :, None], g.A[:, :, None], kinds], dim=-1))
    return found


def largest(x: Tensor) -> Tensor:
    off = x[~torch.eye(len(x), dtype=torch.bool)]
    return torch.cat([roots(x).amax(0), off.amax(0) if len(off) else torch.zeros_like(x[0, 0])])


def ppgn(w: Arrays, gs: list[Graph], config: Config) -> Tensor:
    a, out = config["config_object"]["architecture"], config["config_object"]["num_classes"]
    x, seen, widths = tensors(gs, config), [], a["block_features"]
    for t, width in enumerate(widths):
        both = []
        for name in ("mlp1", "mlp2"):
            y = x
            for r in range(a["depth_of_mlp"]):
                y = relu(w.lin(f"reg_blocks.{t}.{name}.convs.{r}", y, width, ends=(1, 1)))
            both.append(y)
        product = [torch.einsum("kjc,jic->kic", one, two) for one, two in zip(*both, strict=True)]
        x = w.lin(f"reg_blocks.{t}.skip.conv", beside(x, product), width, ends=(1, 1))
        seen.append([torch.stack([largest(b) for b in x])])
    if a["new_suffix"]:
        return torch.stack([w.lin(f"fc_layers.{t}.fc", pooled, out)[0] for t, pooled in enumerate(seen)]).sum(0)
    y = relu(w.lin("fc_layers.1.fc", relu(w.lin("fc_layers.0.fc", seen[-1], 7)), 4))
    return w.lin("fc_layers.2.fc", y, out)[0]


def ign2(w: Arrays, gs: list[Graph], config: Config, port: bool = False) -> Tensor:
    x, mean, widths = tensors(gs, config), port or config["normalization"] is not None, config["architecture"]

    def sums(a: Tensor) -> tuple[Tensor, ...]:
        """The diagonal, its sum, the sums of rows and of columns, and of all: or means."""
        n = len(a) if mean else 1
        return roots(a), roots(a).sum(0) / n, a.sum(1) / n, a.sum(0) / n, a.sum((0, 1)) / n**2

    for t, width in enumerate(widths):
        here = f"equi_layers.{t}"
        size = x[0].size(-1)
        maps = w.get(f"{here}.coeffs", size, width, 15, scale=(5 * size) ** -0.5)
        biases = w.get(f"{here}.all_bias", 1, width, 1, 1, scale=0.5), w.get(f"{here}.diag_bias", 1, width, 1, 1, scale=0.5)
        new = []
        for a in x:
            d, trace, row, column, total = sums(a)
            on = [d, trace.expand_as(d), row, column, total.expand_as(d)]
            off = [column[:, None], row[:, None], column[None], row[None], a, a.transpose(0, 1), d[:, None], d[None], trace, total]
            y = torch.stack([(part @ maps[:, :, 5 + b]).expand(len(a), len(a), -1) for b, part in enumerate(off)]).sum(0)
            mine = torch.stack([part @ maps[:, :, b] for b, part in enumerate(on)]).sum(0) + biases[1].flatten()
            new.append(y + biases[0].flatten() + torch.diag_embed(mine.t()).permute(1, 2, 0))
        x = new if port else relu(new)
    if port:
        end = f"equi_layers.{len(widths)}"
        maps, bias = w.get(f"{end}.coeffs", widths[-1], 5, 5, scale=0.2), w.get(f"{end}.bias", 1, 5, 1)
        nodes = []
        for a in x:
            parts = [part.expand(len(a), -1) for part in sums(a)]
            nodes.append(torch.stack([part @ maps[:, :, b] for b, part in enumerate(parts)]).sum(0) + bias.flatten())
        pooled = [torch.stack([a.sum(0) for a in nodes])]
    else:
        pooled = [torch.stack([largest(a) for a in x])]
    out = w.lin("fully3", relu(w.lin("fully2", relu(w.lin("fully1", pooled, 7)), 4)), 2)[0]
    return out.log_softmax(-1) if port else out


def hops(config: Config) -> int | None:
    """The depth of the ego nets; None for whole graphs."""
    return config["subgraphs"]["h"] if "subgraphs" in config else config.get("hops")


FORMULAS: dict[str, Callable[[Arrays, list[Graph], Config], Tensor]] = {
    "gnn_ak": gnn_ak,
    "gnn_ak_ctx": gnn_ak,
    "gnn_ak_plus": gnn_ak,
    "gnn_ak_plus_molhiv": gnn_ak,
    "sswl": sswl,
    "sswl_plus": sswl,
    "ngnn_tu": ngnn_tu,
    "ngnn_ogb": ngnn_ogb,
    "idgnn_idconv": idgnn,
    "idgnn_gcn": idgnn,
    "idgnn_gin": idgnn,
    "ppgn": ppgn,
    "ppgn_old_suffix": ppgn,
    "ign2": ign2,
    "ign2_port": lambda w, gs, config: ign2(w, gs, config, port=True),
}
