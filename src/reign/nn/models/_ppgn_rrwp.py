"""PPGN with random-walk features: residual blocks, with signed square roots of the products."""

from typing import Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from reign._validate import check_count
from reign.bags import SubgraphBag
from reign.nn._catalogue import MODELS
from reign.nn._describe import aligned
from reign.nn._encoders import EncoderSpec, encode_edges, make_encoder
from reign.nn._mlp import MLP, Activation, Resettable, num_parameters
from reign.nn._model import SubgraphGNN
from reign.nn._options import LayerOptions, TensorModelOptions
from reign.nn._pooling import Pooling
from reign.nn._state import State
from reign.nn._terms import TERMS
from reign.nn.models._ign2 import graph_tensor, on_diagonal, with_edges
from reign.nn.models._ppgn import PPGN, matrix_product

SMALLEST = 1e-6  # the gradient of a square root is unbounded at 0, so it is linear below this value


class PPGNRootConv(Resettable):
    r"""A residual block with a matrix product over nodes in every channel, and its signed square root.

    .. math:: m = m_1(x) \cdot m_2(x), \quad x \leftarrow x + m_3 \big( [x, \mathrm{sign}(m) \sqrt{|m|}] \big)

    Args:
        in_channels: number of channels of the input; if it differs from ``out_channels``, x goes through a linear map before it is added.
        out_channels: number of channels of the output.
        act: activation.
        norm: "batch_norm", "layer_norm" or None.
    """

    def __init__(self, in_channels: int, out_channels: int, *, act: Activation = "relu", norm: str | None = "batch_norm") -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.left, self.right = (MLP(in_channels, out_channels, norm=norm, act=act) for _ in range(2))
        self.both = MLP(in_channels + out_channels, out_channels, norm=norm, act=act)
        self.skip = nn.Identity() if in_channels == out_channels else nn.Linear(in_channels, out_channels)

    def forward(self, h: Float[Tensor, "pairs in_channels"], bag: SubgraphBag) -> Float[Tensor, "pairs out_channels"]:
        """Update the values of the pairs of a bag."""
        rows = bag.real("pair")
        product = signed_root(matrix_product(self.left(h, rows), self.right(h, rows), bag))
        out: Tensor = self.skip(h) + self.both(torch.cat([h, product], dim=1), rows)
        return out

    def describe(self, latex: bool = False) -> str:
        """Describe the update equation and the number of parameters; with ``latex``, return only the equation as LaTeX."""
        if latex:
            product = r"\textstyle\sum_{j} \mu^{0}(x)^{k}_{j} \, \mu^{1}(x)^{j}_{i}"
            return aligned(
                [rf"x^{{k}}_{{i}} &\leftarrow x^{{k}}_{{i}} + \mu^{{2}} \big( x^{{k}}_{{i}},\, \pm\sqrt{{{product}}} \big)"]
            )
        return (
            f"{type(self).__name__}({self.in_channels} -> {self.out_channels}), {num_parameters(self):,} parameters\n"
            "  x[k,i] <- x[k,i] + MLP[x[k,i], root of sum_j MLP(x)[k,j] * MLP(x)[j,i]]\n"
            "  cost: 6 passes over pairs, and a matrix product of cost n^3 per channel"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels} -> {self.out_channels}, terms=['own', 'matrix product'])"


class SumPooling(Pooling):
    """The sum over roots, concatenated with the sum over all other pairs divided by the number of nodes.

    Args:
        channels: number of channels of the values.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.out_channels = 2 * channels

    def forward(self, state: State) -> Float[Tensor, "graphs channels"]:
        """Pool a bag to one row per graph."""
        sizes = state.bag.graph.sizes.clamp(min=1)[:, None]
        return torch.cat([state.get(TERMS["roots"]), state.get(TERMS["non_roots"]) / sizes], dim=1)


@MODELS.register("ppgnrrwp", "PPGN+RRWP")
class PPGNRRWP(SubgraphGNN):
    r"""PPGN on random walks, with residual blocks and the signed square roots of products.

    .. math:: x^k_i = W p^k_i + [k \sim i] \, e_{ki} + [k = i] \, x_i

    where :math:`p^k_i` are the probabilities that a random walk of 0, 1, 2, ... steps from k ends at i. Without edge features,
    :math:`e_{ki}` is one learned vector.

    Args:
        in_channels: number of channels of node features, after ``node_encoder`` if there is one.
        hidden_channels: number of channels of the layers.
        num_layers: number of blocks.
        out_channels: number of channels of the prediction; None gives the pooled vectors themselves.
        walk_length: number of channels of random walks; 0 for none.
        edge_dim: number of channels of continuous edge features.
        edge_encoder: encoder of edge features that are integer types; see ``make_encoder``.
        options: see ``TensorModelOptions``; ``encodings`` replaces ``walk_length``.
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
        walk_length: int = 21,
        edge_dim: int | None = None,
        edge_encoder: EncoderSpec = None,
        **options: Unpack[TensorModelOptions],
    ) -> None:
        check_count("hidden_channels", hidden_channels)
        check_count("walk_length", walk_length, 0)
        if walk_length and options.get("encodings") is None:
            options["encodings"] = {"pairs": [f"rrwp:{walk_length}"]}
        if options.get("head") is None:
            options["head"] = {"hidden": [hidden_channels, max(hidden_channels // 2, 1)]}
        options.setdefault("pooling", SumPooling)
        self._lifted = hidden_channels
        super().__init__(in_channels, hidden_channels, num_layers, out_channels, policy="null", layer=_block, **options)
        self.atoms = nn.Identity() if in_channels == hidden_channels else nn.Linear(in_channels, hidden_channels, bias=False)
        self.edge_encoder = make_encoder(edge_encoder, edge_dim, hidden_channels)
        self.edge_channels = 0 if self.edge_encoder is None else hidden_channels
        self.edge = nn.Parameter(torch.randn(1, hidden_channels)) if self.edge_encoder is None else None

    def reset_own(self) -> None:
        """Draw the vector of edges again."""
        if self.edge is not None:
            self.edge.normal_()

    def lifted_channels(self) -> int:
        """The number of channels of the tensor."""
        return self._lifted

    def lift(self, x: Float[Tensor, "nodes in_channels"], bag: SubgraphBag) -> Float[Tensor, "pairs lifted"]:
        """Turn the graph into a tensor: features on the diagonal, edges off it."""
        if self.edge is not None:
            edges = self.edge.expand(bag.graph.edge_index.size(1), -1)
        else:
            assert self.edge_encoder is not None
            edges = encode_edges(self.edge_encoder, bag.graph.edge_attr)
        return with_edges(on_diagonal(self.atoms(x), bag), edges, bag)

    def exact_lift(self, x: Float[Tensor, "nodes in_channels"], bag: SubgraphBag) -> Float[Tensor, "pairs lifted"]:
        """The inputs of ``lift``, without weights: features on the diagonal, A off it."""
        return graph_tensor(x, bag, 0, None)


def signed_root(x: Float[Tensor, "rows channels"]) -> Float[Tensor, "rows channels"]:
    """sign(x) sqrt(|x|), a straight line between -``SMALLEST`` and ``SMALLEST``."""
    return x * x.abs().clamp(min=SMALLEST).rsqrt()


def _block(in_channels: int, out_channels: int, **options: Unpack[LayerOptions]) -> PPGNRootConv:
    return PPGNRootConv(in_channels, out_channels, act=options["act"], norm=options["norm"])
