"""Provably powerful graph networks (Maron et al. 2019): a baseline that multiplies matrices."""

from itertools import pairwise
from typing import Any, Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from reign.bags import SubgraphBag
from reign.kernels import kernels_for
from reign.nn._catalogue import MODELS
from reign.nn._describe import aligned
from reign.nn._mlp import MLP, Activation, Resettable, make_act, make_norm, normalise, num_parameters
from reign.nn._options import LayerOptions
from reign.nn.models._ign2 import TensorGNN


class PPGNConv(Resettable):
    r"""A block of a provably powerful graph network, with a matrix product over nodes in every channel.

    .. math:: h \leftarrow \sigma \big( W [h, m_1(h) \cdot m_2(h)] \big)

    Args:
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        act: activation.
        norm: "batch_norm", "layer_norm" or None.
    """

    def __init__(self, in_channels: int, out_channels: int, *, act: Activation = "relu", norm: str | None = "batch_norm") -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.left = MLP(in_channels, out_channels, norm=norm, act=act)
        self.right = MLP(in_channels, out_channels, norm=norm, act=act)
        self.skip = nn.Linear(in_channels + out_channels, out_channels)
        self.norm = make_norm(norm, out_channels)
        self.act = make_act(act)

    def forward(self, h: Float[Tensor, "pairs in_channels"], bag: SubgraphBag) -> Float[Tensor, "pairs out_channels"]:
        """Update the values of the pairs of a bag."""
        rows, sizes = bag.real("pair"), bag.graph.sizes.clamp(min=1)
        product = matrix_product(self.left(h, rows), self.right(h, rows), bag) / sizes[bag.pair_batch][:, None]
        out: Tensor = self.act(normalise(self.norm, self.skip(torch.cat([h, product], dim=1)), rows))
        return out

    def describe(self, latex: bool = False) -> str:
        """Show the update equation and the number of parameters; or the equation as LaTeX."""
        if latex:
            product = r"\frac{1}{n} \textstyle\sum_{j} \mu^{0}(x)^{k}_{j} \, \mu^{1}(x)^{j}_{i}"
            return aligned([rf"x^{{k}}_{{i}} &\leftarrow \sigma \Big( W \big[ x^{{k}}_{{i}},\, {product} \big] \Big)"])
        size = num_parameters(self)
        return (
            f"PPGNConv({self.in_channels} -> {self.out_channels}), {size:,} parameters\n"
            f"  x[k,i] <- {type(self.act).__name__}(Linear[x[k,i], mean_j MLP(x)[k,j] * MLP(x)[j,i]])\n"
            "  cost: 4 passes over pairs, and a matrix product of cost n^3 per channel"
        )

    def __repr__(self) -> str:
        return f"PPGNConv({self.in_channels} -> {self.out_channels}, terms=['own', 'matrix product'])"


class PPGNBlock(Resettable):
    r"""A block as published: activations after every layer of the MLPs, a product that is not scaled, and no activation at the end.

    .. math:: h \leftarrow W [h, m_1(h) \cdot m_2(h)]

    Args:
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        depth: number of layers of the MLPs.
        act: activation.
    """

    def __init__(self, in_channels: int, out_channels: int, *, depth: int = 2, act: Activation = "relu") -> None:
        super().__init__()
        if type(depth) is not int or depth < 1:
            raise ValueError(f"depth is {depth!r}, expected at least 1.")
        self.in_channels, self.out_channels = in_channels, out_channels
        widths = [in_channels] + [out_channels] * depth
        self.left, self.right = (nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(widths)]) for _ in range(2))
        self.skip = nn.Linear(in_channels + out_channels, out_channels)
        self.act = make_act(act)

    def forward(self, h: Float[Tensor, "pairs in_channels"], bag: SubgraphBag) -> Float[Tensor, "pairs out_channels"]:
        """Update the values of the pairs of a bag."""
        left = right = h
        for one, other in zip(self.left, self.right, strict=True):
            left, right = self.act(one(left)), self.act(other(right))
        out: Tensor = self.skip(torch.cat([h, matrix_product(left, right, bag)], dim=1))
        return out

    def describe(self, latex: bool = False) -> str:
        """Show the update equation and the number of parameters; or the equation as LaTeX."""
        if latex:
            product = r"\textstyle\sum_{j} \mu^{0}(x)^{k}_{j} \, \mu^{1}(x)^{j}_{i}"
            return aligned([rf"x^{{k}}_{{i}} &\leftarrow W \big[ x^{{k}}_{{i}},\, {product} \big]"])
        return (
            f"{type(self).__name__}({self.in_channels} -> {self.out_channels}), {num_parameters(self):,} parameters\n"
            "  x[k,i] <- Linear[x[k,i], sum_j MLP(x)[k,j] * MLP(x)[j,i]]\n"
            f"  cost: {2 * len(self.left) + 1} passes over pairs, and a matrix product of cost n^3 per channel"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels} -> {self.out_channels}, terms=['own', 'matrix product'])"


@MODELS.register("ppgn")
class PPGN(TensorGNN):
    """Provably powerful graph network: as strong as 3-WL, at cubic cost.

    Its arguments are those of ``TensorGNN``.
    """

    wl_bound = "3-WL: PPGN is as strong as it (Maron et al. 2019)"

    @staticmethod
    def make_layer(in_channels: int, out_channels: int, **options: Unpack[LayerOptions]) -> PPGNConv:
        """Make a layer."""
        return PPGNConv(in_channels, out_channels, act=options["act"], norm=options["norm"])


def matrix_product(
    a: Float[Tensor, "pairs channels"], b: Float[Tensor, "pairs channels"], bag: SubgraphBag
) -> Float[Tensor, "pairs channels"]:
    """sum_j a[k, j] b[j, i]. Graphs are padded with zeros only for the product, so nothing leaks between graphs. Fused kernels pad nothing."""
    n, channels = bag.largest, a.size(1)
    if (kernels := kernels_for(a)) is not None and b.dtype == a.dtype:
        squares = kernels.Squares(bag.row_ptr, bag.graph.ptr, bag.graph.batch, bag.real("node"))
        fused: Tensor = kernels.square_product(a, b, squares)
        return fused
    first = bag.graph.ptr[bag.pair_batch]
    place = (bag.pair_batch * n + (bag.sub - first).clamp(max=n - 1)) * n + (bag.node - first).clamp(max=n - 1)

    def dense(rows: Tensor) -> Tensor:
        padded: Tensor = _Spread.apply(rows, place, bag.num_graphs * n * n)  # type: ignore[no-untyped-call]
        return padded.view(bag.num_graphs, n, n, channels).permute(0, 3, 1, 2)

    product = (dense(a) @ dense(b)).permute(0, 2, 3, 1).reshape(bag.num_graphs * n * n, channels)
    out: Tensor = _Pick.apply(product, place)  # type: ignore[no-untyped-call]
    return out


class _Spread(torch.autograd.Function):
    """Rows at their positions among zeros. Only rows of padding share a position, so the gradient is a plain lookup."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, place: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(place)
        return rows.new_zeros(size, rows.size(1)).index_copy_(0, place, rows)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
        (place,) = ctx.saved_tensors
        return _Pick.apply(g, place), None, None  # type: ignore[no-untyped-call]


class _Pick(torch.autograd.Function):
    """The rows at some positions: the inverse of ``_Spread``."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(place)
        ctx.number = dense.size(0)
        return dense.index_select(0, place)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (place,) = ctx.saved_tensors
        return _Spread.apply(g, place, ctx.number), None  # type: ignore[no-untyped-call]
