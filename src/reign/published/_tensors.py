"""2-IGN and PPGN (Maron et al. 2019) as their authors published them, and the graph as their input tensor."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn

import reign.nn
from reign._validate import check
from reign.bags import SubgraphBag
from reign.published._weights import Config, Weights, allow, head

Tensors = Literal["degrees", "distances"]
NO_PATH = 2**14  # more hops than any path has


class TensorPublishedOptions(reign.nn.DomainOptions, reign.nn.OuterOptions, total=False):
    """Options of models of tensors as published: ``DomainOptions`` and ``OuterOptions``."""


class TensorFormOptions(TensorPublishedOptions, total=False):
    """Options of 2-IGN and PPGN as published: ``TensorPublishedOptions``, and the form of the input tensor.

    Args:
        tensor, edge_dim, edge_encoder, act: see ``TensorPublished``.
    """

    tensor: Tensors
    edge_dim: int | None
    edge_encoder: reign.nn.EncoderSpec
    act: reign.nn.Activation


class TensorPublished(reign.nn.SubgraphGNN):
    r"""A model without a policy, whose input is the graph as a tensor in one of the published forms.

    "degrees": :math:`D^{-1/2} A D^{-1/2}` in every channel, and :math:`[0, x_i]` added on the diagonal. "distances": :math:`x_i` on the
    diagonal, and the hop distance (0 where there is no path), A and edge features off it.

    Args:
        layer: function that makes a layer.
        tensor: form of the input tensor, "degrees" or "distances".
        edge_dim: number of channels of continuous or encoded edge features; ``in_channels`` for encoded features if not given.
        edge_encoder: encoder of edge features that are integer types; see ``make_encoder``.
        act: activation.
    """

    needs_node_based = True
    takes_policy = False
    drops_input = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        layer: Callable[..., nn.Module],
        jk: Literal["cat"] | None = None,
        widths: Sequence[int] | None = None,
        head: Mapping[str, Any] | None = None,
        tensor: Tensors = "distances",
        edge_dim: int | None = None,
        edge_encoder: reign.nn.EncoderSpec = None,
        act: reign.nn.Activation = "relu",
        **options: Unpack[TensorPublishedOptions],
    ) -> None:
        check("tensor", tensor, tensor in ("degrees", "distances"), "'degrees' or 'distances'")
        edges = edge_dim or (0 if edge_encoder is None else in_channels)
        if edges and tensor == "degrees":
            raise ValueError("tensor='degrees' does not support edge features; leave them out, or use tensor='distances'.")
        self.tensor, self.edge_channels = tensor, edges
        options.setdefault("pooling", reign.nn.DiagonalPooling)
        sizes = in_channels, hidden_channels, num_layers, out_channels
        super().__init__(*sizes, policy="null", layer=layer, jk=jk, widths=widths, head=head, act=act, norm=None, **options)
        self.edge_encoder = reign.nn.make_encoder(edge_encoder, None, edges) if edges else None

    def lifted_channels(self) -> int:
        """The number of channels of the tensor."""
        return self.in_channels + (1 if self.tensor == "degrees" else 2 + self.edge_channels)

    def lift(self, x: Float[Tensor, "nodes in_channels"], bag: SubgraphBag) -> Float[Tensor, "pairs lifted"]:
        """Turn the graph into a tensor."""
        given, n = bag.graph.edge_attr, x.size(1)
        if self.tensor == "distances":
            encoded = given if self.edge_encoder is None or given is None else self.edge_encoder(given)
            h, hops = reign.nn.graph_tensor(x, bag, self.edge_channels, encoded), bag.hops(NO_PATH)
            distance = hops.masked_fill(hops > NO_PATH, 0).to(x.dtype)[:, None]
            return torch.cat([h[:, :n], distance, h[:, n:]], dim=1)
        h, wiring = reign.nn.graph_tensor(x, bag, 0, None), bag.wiring
        joined = h[:, n:]
        degree = wiring.to_node(joined)
        scale = torch.where(degree > 0, degree.clamp(min=1).rsqrt(), 0)
        return joined * wiring.to_sub.t(scale) * wiring.to_node.t(scale) + torch.cat([torch.zeros_like(joined), h[:, :n]], dim=1)


# -- 2-IGN ---------------------------------------------------------------------------------------------------------------


OFF = ["own", "transpose", "root", "node_root", "readout", "needle", "node_readout", "root_needle", "roots", "total"]
ON = ["own", "roots", "readout", "root_needle", "total"]


@reign.nn.MODELS.register("ign2published", "2-IGN (published)")
class IGN2Published(TensorPublished):
    """2-IGN as published: its 15 linear maps with two biases, means in place of sums, and max pooling on and off the diagonal.

    Args:
        aggregation: "mean" or "sum" in all linear maps.
        suffix: how values are pooled: "max" takes maxima on and off the diagonal, "nodes" applies a layer from pairs to nodes and sums
            over nodes.
        pooled_channels: number of channels of that layer from pairs to nodes.
        head_channels: numbers of hidden channels of the MLP at the end.
        linear: whether the layers have no activation, as in the port to PyTorch, and only the head has one.
        log_softmax: whether predictions are log-probabilities of classes.
    """

    wl_bound = reign.nn.IGN2.wl_bound

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        widths: Sequence[int] | None = None,
        aggregation: reign.nn.Aggregation = "mean",
        suffix: Literal["max", "nodes"] = "max",
        pooled_channels: int | None = None,
        head_channels: Sequence[int] = (512, 256),
        linear: bool = False,
        log_softmax: bool = False,
        **options: Unpack[TensorFormOptions],
    ) -> None:
        check("suffix", suffix, suffix in ("max", "nodes"), "'max' or 'nodes'")
        check("aggregation", aggregation, aggregation in ("sum", "mean"), "'sum' or 'mean'")
        how: dict[str, reign.nn.Aggregation] = dict.fromkeys(OFF[4:], aggregation)
        if suffix == "nodes":
            pooling: Callable[[int], reign.nn.Pooling] = partial(
                reign.nn.NodePooling, terms=ON, out_channels=pooled_channels, aggregation=how
            )
            options.setdefault("pooling", pooling)
        layer = partial(
            reign.nn.SubgraphConv, terms=OFF, root_terms=ON, roots="added", transform="linear", bias="first", aggregation=how
        )
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            layer=partial(layer, end_act=not linear),
            widths=widths,
            head={"hidden": list(head_channels), "log_softmax": log_softmax},
            **options,
        )


# -- PPGN ----------------------------------------------------------------------------------------------------------------


@reign.nn.MODELS.register("ppgnpublished", "PPGN (published)")
class PPGNPublished(TensorPublished):
    """PPGN as published: activations after all layers of the MLPs, a plain product, and max pooling on and off the diagonal.

    Args:
        num_layers: number of blocks.
        widths: numbers of channels of the blocks; if not given, all have ``hidden_channels``.
        depth: number of layers of the MLPs.
        suffix: how predictions are made: by a linear map of all blocks ("new"), or by an MLP of the last block ("old").
        head_channels: numbers of hidden channels of the MLP at the end.
    """

    wl_bound = reign.nn.PPGN.wl_bound

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        widths: Sequence[int] | None = None,
        depth: int = 2,
        suffix: Literal["new", "old"] = "old",
        head_channels: Sequence[int] = (512, 256),
        **options: Unpack[TensorFormOptions],
    ) -> None:
        check("suffix", suffix, suffix in ("new", "old"), "'new' or 'old'")
        new = suffix == "new"
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            layer=partial(_block, depth),
            widths=widths,
            jk="cat" if new else None,
            head={"hidden": [] if new else list(head_channels)},
            **options,
        )


def _block(depth: int, in_channels: int, out_channels: int, **options: Unpack[reign.nn.LayerOptions]) -> reign.nn.PPGNBlock:
    return reign.nn.PPGNBlock(in_channels, out_channels, depth=depth, act=options["act"])


# -- PPGN between vectors of nodes, as published with GNN-AK (Zhao et al. 2022), from which the paper took its numbers of PPGN


@reign.nn.MODELS.register("ppgnnodespublished", "PPGN of nodes (published)")
class PPGNNodesPublished(reign.nn.SubgraphGNN):
    """PPGN as published with GNN-AK: blocks between vectors of nodes, to which the input is added, and a sum over nodes.

    Args:
        hidden_channels: number of channels of the blocks.
        num_layers: number of blocks.
        depth: number of layers of the MLPs in a block.
        dropout: dropout probability after the blocks and before the head.
    """

    needs_node_based = True
    takes_policy = False
    drops_input = False
    wl_bound = reign.nn.PPGN.wl_bound

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        depth: int = 2,
        **options: Unpack[reign.nn.PublishedEdgeOptions],
    ) -> None:
        norm, dropout = options.get("norm", "batch_norm"), options.get("dropout", 0.0)
        options.setdefault("pooling", partial(reign.nn.RootPooling, roots="sum"))
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            policy="null",
            layer=[partial(_blocks, num_layers, depth)],
            residual="identity",
            head={"hidden": [hidden_channels], "norm": norm, "bias": norm is None, "input_dropout": dropout, "dropout": 0.0},
            **options,
        )

    def lift(self, x: Float[Tensor, "nodes in_channels"], bag: SubgraphBag) -> Float[Tensor, "pairs lifted"]:
        """Put the vectors of nodes on the diagonal."""
        return reign.nn.on_diagonal(x, bag)


def _blocks(
    number: int, depth: int, in_channels: int, out_channels: int, **options: Unpack[reign.nn.LayerOptions]
) -> reign.nn.PPGNNodesConv:
    names = ("edge_dim", "edge_encoder", "act", "norm")
    return reign.nn.PPGNNodesConv(in_channels, out_channels, blocks=number, depth=depth, **{name: options[name] for name in names})  # type: ignore[literal-required]


# -- weights and settings of hadarser/ProvablyPowerfulGraphNetworks_torch, Haggaim/InvariantGraphNetworks and its port to PyTorch


def ppgn(w: Weights, config: Config, policy: str | None) -> reign.nn.Model:
    """PPGN, with its new and its old suffix."""
    a, out = config["config_object"]["architecture"], config["config_object"]["num_classes"]
    widths, depth, new = a["block_features"], a["depth_of_mlp"], a["new_suffix"]
    last = [f"fc_layers.{place}.fc" for place in range(len(widths) if new else 3)]
    model = PPGNPublished(
        config["num_atom_types"],
        widths[-1],
        len(widths),
        out,
        widths=widths,
        depth=depth,
        suffix="new" if new else "old",
        head_channels=[] if new else [w.get(f"{name}.weight").size(0) for name in last[:-1]],
        **_tensor(config, policy),
    )
    for t in range(len(widths)):
        for ours, theirs in (("left", "mlp1"), ("right", "mlp2")):
            for r in range(depth):
                w.linear(f"layers.{t}.{ours}.{r}", f"reg_blocks.{t}.{theirs}.convs.{r}")
        w.linear(f"layers.{t}.skip", f"reg_blocks.{t}.skip.conv")
    if new:  # one linear map of all blocks, the diagonals first; its bias is the sum of theirs
        halves = [w.get(f"{name}.weight").chunk(2, dim=1) for name in last]
        w.ours["head.lin1.weight"] = torch.cat([half for side in zip(*halves, strict=True) for half in side], dim=1)
        w.ours["head.lin1.bias"] = torch.stack([w.get(f"{name}.bias") for name in last]).sum(0)
    else:
        head(w, last)
    return model


def ign2(w: Weights, config: Config, policy: str | None, *, port: bool = False) -> reign.nn.Model:
    """2-IGN: the layers of the port, combined as in the original or as in the port, which always takes means."""
    widths = config["architecture"]
    if not port:
        allow(config, normalization=("inf", None))
    last = ["fully1", "fully2", "fully3"]
    end = f"equi_layers.{len(widths)}"
    model = IGN2Published(
        config["num_atom_types"],
        widths[-1],
        len(widths),
        w.get("fully3.weight").size(0),
        widths=widths,
        aggregation="mean" if port or config.get("normalization", "inf") == "inf" else "sum",
        suffix="nodes" if port else "max",
        pooled_channels=w.get(f"{end}.coeffs").size(1) if port else None,
        head_channels=[w.get(f"{name}.weight").size(0) for name in last[:-1]],
        linear=port,
        log_softmax=port,
        **_tensor(config, policy),
    )
    off = {"root_needle": 5, "readout": 6, "needle": 7, "node_readout": 8, "own": 9, "transpose": 10, "root": 11}
    off |= {"node_root": 12, "roots": 13, "total": 14}
    on = {"own": 0, "roots": 1, "readout": 2, "root_needle": 3, "total": 4}

    def matrix(place: int) -> Callable[[Tensor], Tensor]:
        return lambda coeffs: coeffs[:, :, place].t()

    for t, layer in enumerate(model.layers):
        for branch, places, bias in (("terms", off, "all_bias"), ("root_terms", on, "diag_bias")):
            for s, slot in enumerate(getattr(layer, branch)):
                w.put(f"layers.{t}.{branch}.{s}.transform.weight", f"equi_layers.{t}.coeffs", matrix(places[slot.name]))
            w.put(f"layers.{t}.{branch}.0.transform.bias", f"equi_layers.{t}.{bias}", torch.flatten)
    if port:
        for place in range(len(on)):
            w.put(f"pooling.maps.{place}.weight", f"{end}.coeffs", matrix(place))
        w.put("pooling.maps.0.bias", f"{end}.bias", torch.flatten)
    head(w, last)
    return model


def _tensor(config: Config, policy: str | None) -> dict[str, Any]:
    """The form of the input tensor, determined by the number of channels at the start of ``config["input"]``."""
    if policy not in (None, "null"):
        raise ValueError(f"policy is {policy!r}, expected None: PPGN and 2-IGN take all pairs of nodes.")
    atoms, bonds, channels = config["num_atom_types"], config["num_bond_types"], str(config["input"]).split()[0]
    if channels == str(atoms + 1):
        return {"tensor": "degrees", "node_encoder": "one-hot", "edge_encoder": None}
    if channels == str(atoms + 2 + bonds):
        return {"tensor": "distances", "node_encoder": "one-hot", "edge_encoder": "one-hot", "edge_dim": bonds}
    raise ValueError(f"config has input={config['input']!r}, expected '{atoms + 1} channels' or '{atoms + 2 + bonds} channels'.")
