"""Provably powerful graph networks (Maron et al. 2019), baselines that multiply matrices: their blocks, PPGN, and PPGN with random-walk features."""

from functools import partial
from itertools import pairwise
from typing import Any, Literal, Unpack

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from reign._validate import check, check_count
from reign.bags import SubgraphBag, block_triples, kernel_triples
from reign.kernels import kernels_for
from reign.nn._catalogue import MODELS
from reign.nn._describe import aligned
from reign.nn._encoders import EncoderSpec, encode_edges, make_edge_encoder, make_encoder
from reign.nn._mlp import MLP, Activation, Resettable, make_act, make_norm, normalise, num_parameters
from reign.nn._model import SubgraphGNN
from reign.nn._options import LayerOptions, TensorModelOptions
from reign.nn._pooling import Pooling
from reign.nn._state import State
from reign.nn._terms import TERMS
from reign.nn.models._tensors import TensorGNN, graph_tensor, on_diagonal, with_edges

PRODUCT = r"\textstyle\sum_{j} \mu^{0}(x)^{k}_{j} \, \mu^{1}(x)^{j}_{i}"


class _Product(Resettable):
    """What blocks with a matrix product share: how they are described.

    Args:
        in_channels, out_channels: see ``SubgraphConv``.
        act, norm: see ``TransformOptions``.
    """

    in_channels: int
    out_channels: int

    def _described(self, formula: str, passes: int, product: str = "matrix product of cost n^3") -> str:
        size = num_parameters(self)
        return (
            f"{type(self).__name__}({self.in_channels} -> {self.out_channels}), {size:,} parameters\n"
            f"  x[k,i] <- {formula}\n"
            f"  cost: {passes} passes over pairs, and a {product} per channel"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels} -> {self.out_channels}, terms=['own', 'matrix product'])"


class PPGNConv(_Product):
    r"""A block of a provably powerful graph network, with a matrix product over nodes in every channel.

    .. math:: h \leftarrow \sigma \big( W [h, m_1(h) \cdot m_2(h)] \big)
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
            product = rf"\frac{{1}}{{n}} {PRODUCT}"
            return aligned([rf"x^{{k}}_{{i}} &\leftarrow \sigma \Big( W \big[ x^{{k}}_{{i}},\, {product} \big] \Big)"])
        return self._described(f"{type(self.act).__name__}(Linear[x[k,i], mean_j MLP(x)[k,j] * MLP(x)[j,i]])", 4)


class PPGNBlock(_Product):
    r"""A block as published: activations after every layer of the MLPs, a product that is not scaled, and no activation at the end.

    .. math:: h \leftarrow W [h, m_1(h) \cdot m_2(h)]

    Args:
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
            return aligned([rf"x^{{k}}_{{i}} &\leftarrow W \big[ x^{{k}}_{{i}},\, {PRODUCT} \big]"])
        return self._described("Linear[x[k,i], sum_j MLP(x)[k,j] * MLP(x)[j,i]]", 2 * len(self.left) + 1)


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
            return aligned(
                [rf"x^{{k}}_{{i}} &\leftarrow W \big[ x^{{k}}_{{i}},\, {PRODUCT} \big] \quad {len(self.blocks)} \times", ends]
            )
        lines = [f"{self!r}, {num_parameters(self):,} parameters", *(each.describe() for each in self.blocks)]  # type: ignore[operator]
        lines.append(f"  x[k,i] <- {type(self.act).__name__}(MLP[x[i,i] , sum_j x[i,j], j != i]), on nodes")
        return "\n".join(lines)

    def __repr__(self) -> str:
        terms = ["own & matrix product"] * len(self.blocks) + ["node_root & node_readout_strict"]
        return f"{type(self).__name__}({self.in_channels} -> {self.out_channels}, terms={terms})"


@MODELS.register("ppgn")
class PPGN(TensorGNN):
    """Provably powerful graph network: as strong as 3-WL, at cubic cost."""

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


def block_product(
    a: Float[Tensor, "pairs channels"], b: Float[Tensor, "pairs channels"], bag: SubgraphBag
) -> Float[Tensor, "pairs channels"]:
    """As ``matrix_product``, with sums over the nodes of one block; see ``make_block_triples``."""
    if (kernels := kernels_for(a)) is not None and b.dtype == a.dtype:
        fused: Tensor = kernels.triple_product(a, b, kernel_triples(bag))
        return fused
    triples = block_triples(bag)
    return triples.into_targets(triples.from_rows(a) * triples.from_edges(b))


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


# -- with random-walk features, and signed square roots of the products --------------------------------------------------


Products = Literal["all", "blocks"]
SMALLEST = 1e-6  # the gradient of a square root is unbounded at 0, so it is linear below this value


class PPGNRootConv(_Product):
    r"""A residual block with a matrix product over nodes in every channel, and its signed square root.

    .. math:: m = m_1(x) \cdot m_2(x), \quad x \leftarrow x + m_3 \big( [x, \mathrm{sign}(m) \sqrt{|m|}] \big)

    Args:
        in_channels: number of channels of the input; if it differs from ``out_channels``, x goes through a linear map before it is added.
        products: "all" or "blocks", see ``PPGNRRWP``.
        act: activation.
        norm: "batch_norm", "layer_norm" or None.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        products: Products = "all",
        act: Activation = "relu",
        norm: str | None = "batch_norm",
    ) -> None:
        super().__init__()
        check("products", products, products in ("all", "blocks"), "'all' or 'blocks'")
        self.products = products
        self.in_channels, self.out_channels = in_channels, out_channels
        self.left, self.right = (MLP(in_channels, out_channels, norm=norm, act=act) for _ in range(2))
        self.both = MLP(in_channels + out_channels, out_channels, norm=norm, act=act)
        self.skip = nn.Identity() if in_channels == out_channels else nn.Linear(in_channels, out_channels)

    def forward(self, h: Float[Tensor, "pairs in_channels"], bag: SubgraphBag) -> Float[Tensor, "pairs out_channels"]:
        """Update the values of the pairs of a bag."""
        rows = bag.real("pair")
        multiply = matrix_product if self.products == "all" else block_product
        product = multiply(self.left(h, rows), self.right(h, rows), bag)
        out: Tensor = self.skip(h) + self.both(with_root(h, product), rows)
        return out

    def describe(self, latex: bool = False) -> str:
        """Describe the update equation and the number of parameters; with ``latex``, return only the equation as LaTeX."""
        blocks = self.products == "blocks"
        if latex:
            product = PRODUCT.replace("_{j}", r"_{j \in B_{ki}}", 1) if blocks else PRODUCT
            return aligned(
                [rf"x^{{k}}_{{i}} &\leftarrow x^{{k}}_{{i}} + \mu^{{2}} \big( x^{{k}}_{{i}},\, \pm\sqrt{{{product}}} \big)"]
            )
        formula = "x[k,i] + MLP[x[k,i], root of sum_j MLP(x)[k,j] * MLP(x)[j,i]]"
        if blocks:
            return self._described(formula + ", j in the block of k and i", 6, "product for each triple of nodes of a block")
        return self._described(formula, 6)


class SumPooling(Pooling):
    """The sum over roots, concatenated with the sum over all other pairs divided by the number of nodes."""

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
        num_layers: number of blocks.
        walk_length: number of channels of random walks; 0 for none. ``encodings`` replaces it.
        products: over which nodes j the products sum: "all", or j = k and the other nodes of the biconnected block of at least three nodes, as
            rings are, that has k and i ("blocks"). On the diagonal j is any node of the component; between components nothing is summed.
        edge_encoder: encoder of edge features that are integer types; see ``make_encoder``.
    """

    needs_node_based = True
    takes_policy = False
    drops_input = False
    wl_bound = f"{PPGN.wl_bound}; with products in blocks an upper bound, as 3-WL finds blocks (Kiefer and Neuen 2019)"

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        walk_length: int = 21,
        products: Products = "all",
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
        super().__init__(
            in_channels, hidden_channels, num_layers, out_channels, policy="null", layer=partial(_block, products), **options
        )
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


def with_root(x: Float[Tensor, "rows channels"], product: Float[Tensor, "rows products"]) -> Float[Tensor, "rows both"]:
    """Values, and signed roots of products."""
    if (kernels := kernels_for(product)) is not None and x.dtype == product.dtype:
        joined: Tensor = kernels.join_roots(x, product, SMALLEST)
        return joined
    return torch.cat([x, signed_root(product)], dim=1)


def _block(products: Products, in_channels: int, out_channels: int, **options: Unpack[LayerOptions]) -> PPGNRootConv:
    return PPGNRootConv(in_channels, out_channels, products=products, act=options["act"], norm=options["norm"])
