"""PPGN between vectors of nodes, as published with GNN-AK (Zhao et al. 2022), from which the paper took its numbers of PPGN."""

from functools import partial
from typing import Unpack

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from reign._validate import check_count
from reign.bags import SubgraphBag
from reign.nn._catalogue import MODELS
from reign.nn._describe import aligned
from reign.nn._encoders import EncoderSpec, encode_edges, make_edge_encoder
from reign.nn._mlp import MLP, Activation, Resettable, make_act, make_norm, normalise, num_parameters
from reign.nn._model import SubgraphGNN
from reign.nn._options import LayerOptions, PublishedEdgeOptions
from reign.nn._pooling import RootPooling
from reign.nn._state import State
from reign.nn._terms import TERMS
from reign.nn.models._tensors import PPGN, PPGNBlock, on_diagonal, with_edges


class PPGNNodesConv(Resettable):
    r"""Blocks of PPGN that end with vectors of nodes.

    .. math:: x^k_i &\leftarrow x^k_i + [k \sim i] \, e_{ki}, \quad x \leftarrow W [x, m_1(x) \cdot m_2(x)] \quad \text{(L times)} \\
              x^k_i &\leftarrow \sigma \big( \mu [ x^i_i, \textstyle\sum_{j \neq i} x^i_j ] \big)

    Without edge features, :math:`e_{ki}` is one learned vector; self-loops have none. In training, the published norm before :math:`\mu` also sees the
    zeros that fill up smaller graphs; this one sees nodes alone.

    Args:
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        blocks: number L of blocks.
        depth: number of layers of the MLPs in a block.
        edge_dim: number of channels of continuous edge features.
        edge_encoder: encoder of edge features that are integer types; see ``make_encoder``.
        act, norm: see ``TransformOptions``.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        blocks: int = 1,
        depth: int = 2,
        edge_dim: int | None = None,
        edge_encoder: EncoderSpec = None,
        act: Activation = "relu",
        norm: str | None = "batch_norm",
    ) -> None:
        super().__init__()
        check_count("blocks", blocks)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.edge_encoder = make_edge_encoder(edge_encoder, edge_dim, in_channels)
        self.blocks = nn.ModuleList(
            PPGNBlock(out_channels if place else in_channels, out_channels, depth=depth, act=act) for place in range(blocks)
        )
        self.both_norm = make_norm(norm, 2 * out_channels)
        self.mlp = MLP(2 * out_channels, out_channels, hidden=2 * out_channels, norm=norm, act=act)
        self.norm, self.act = make_norm(norm, out_channels), make_act(act)
        self.edge = nn.Parameter(torch.randn(1, in_channels)) if self.edge_encoder is None else None

    def reset_own(self) -> None:
        """Draw the vector of edges again."""
        if self.edge is not None:
            self.edge.normal_()

    def forward(
        self, h: Float[Tensor, "pairs in_channels"], bag: SubgraphBag, edge_attr: Shaped[Tensor, "edges *channels"] | None = None
    ) -> Float[Tensor, "pairs out_channels"]:
        """Update the values of the pairs of a bag; the results are the same in all subgraphs."""
        source, target = bag.graph.edge_index
        if self.edge_encoder is None:
            assert self.edge is not None
            edges = self.edge.expand(source.numel(), -1)
        else:
            edges = encode_edges(self.edge_encoder, bag.graph.edge_attr if edge_attr is None else edge_attr)
        x = with_edges(h, edges * (source != target)[:, None], bag)
        for block in self.blocks:
            x = block(x, bag)
        state, rows = State(x, bag, "all"), bag.real("node")
        both = torch.cat([state.get(TERMS["node_root"]), state.get(TERMS["node_readout_strict"])], dim=1)
        nodes = self.mlp(normalise(self.both_norm, both, rows), rows)
        return bag.wiring.to_node.t(normalise(self.norm, nodes, rows, self.act))

    def describe(self, latex: bool = False) -> str:
        """Describe the update equations and the number of parameters; with ``latex``, return only the equations as LaTeX."""
        block = self.blocks[0]
        assert isinstance(block, PPGNBlock)
        if latex:
            ends = r"x^{k}_{i} &\leftarrow \sigma \Big( \mu \big[ x^{i}_{i},\, \textstyle\sum_{j \neq i} x^{i}_{j} \big] \Big)"
            product = r"\textstyle\sum_{j} \mu^{0}(x)^{k}_{j} \, \mu^{1}(x)^{j}_{i}"
            return aligned(
                [rf"x^{{k}}_{{i}} &\leftarrow W \big[ x^{{k}}_{{i}},\, {product} \big] \quad {len(self.blocks)} \times", ends]
            )
        lines = [f"{self!r}, {num_parameters(self):,} parameters", *(each.describe() for each in self.blocks)]  # type: ignore[operator]
        lines.append(f"  x[k,i] <- {type(self.act).__name__}(MLP[x[i,i] , sum_j x[i,j], j != i]), on nodes")
        return "\n".join(lines)

    def __repr__(self) -> str:
        terms = ["own & matrix product"] * len(self.blocks) + ["node_root & node_readout_strict"]
        return f"{type(self).__name__}({self.in_channels} -> {self.out_channels}, terms={terms})"


@MODELS.register("ppgnnodespublished", "PPGN of nodes (published)")
class PPGNNodesPublished(SubgraphGNN):
    """PPGN as published with GNN-AK: blocks between vectors of nodes, to which the input is added, and a sum over nodes.

    Args:
        in_channels: number of channels of node features, after ``node_encoder`` if there is one.
        hidden_channels: number of channels of the blocks.
        num_layers: number of blocks.
        out_channels: number of channels of the prediction; None gives the pooled vectors themselves.
        depth: number of layers of the MLPs in a block.
        options: see ``PublishedEdgeOptions``; dropout is after the blocks and before the head.
    """

    needs_node_based = True
    takes_policy = False
    drops_input = False
    wl_bound = PPGN.wl_bound

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        depth: int = 2,
        **options: Unpack[PublishedEdgeOptions],
    ) -> None:
        norm, dropout = options.get("norm", "batch_norm"), options.get("dropout", 0.0)
        options.setdefault("pooling", partial(RootPooling, roots="sum"))
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
        return on_diagonal(x, bag)


def _blocks(number: int, depth: int, in_channels: int, out_channels: int, **options: Unpack[LayerOptions]) -> PPGNNodesConv:
    names = ("edge_dim", "edge_encoder", "act", "norm")
    return PPGNNodesConv(in_channels, out_channels, blocks=number, depth=depth, **{name: options[name] for name in names})  # type: ignore[literal-required]
