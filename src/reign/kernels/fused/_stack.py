"""Slots of the same shape, evaluated together: linear maps or MLPs, with their norms."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from reign.kernels._plan import CountedRows, Norms, Stack
from reign.kernels.fused import _linear
from reign.kernels.fused._launch import launch
from reign.kernels.fused._linear import add_up, apart, block, chunks, parts, pointers, programs

# rows of a tile, largest number of programs, warps, stages of loads: few programs if each stores a gradient of the weights
FORWARD, BACKWARD, SUMS = (32, 528, 4, 2), (16, 528, 2, 3), (64, 528, 4)
FEW, BACKWARD_OF_FEW = 50_000, (32, 264, 4, 3)  # the same if all slots together have at most this many rows
WIDE, BACKWARD_OF_WIDE = 80, (16, 264, 4, 2)  # the same if there are more channels than this


def addresses(norms: Norms, name: str) -> Tensor:
    """The addresses of one part of some norms; where there is no norm, those of any other, which nobody reads."""
    tensors: list[Tensor | None] = getattr(norms, name)
    some = next(tensor for tensor in tensors if tensor is not None)
    if name == "scale" and norms.mask != (1 << len(tensors)) - 1:
        some = _ones(some.numel(), some.device)  # the identity
    return pointers([some if tensor is None else tensor for tensor in tensors])


def _ones(channels: int, device: torch.device) -> Tensor:
    if (channels, device) not in _ONES:
        _ONES[channels, device] = torch.ones(channels, device=device)
    return _ONES[channels, device]


_ONES: dict[tuple[int, torch.device], Tensor] = {}


@dataclass(eq=False)
class Saved:
    """Values saved for the backward pass, in addition to inputs and results: hidden values, and statistics of the norms."""

    hidden: list[Tensor]
    inner: Tensor | None = None
    outer: Tensor | None = None
    inverse_inner: Tensor | None = None
    inverse_outer: Tensor | None = None

    def tensors(self) -> list[Tensor | None]:
        """All tensors, to be saved by autograd."""
        return [self.inner, self.outer, self.inverse_inner, self.inverse_outer, *self.hidden]

    @staticmethod
    def of(tensors: Sequence[Tensor | None]) -> "Saved":
        """The inverse of ``tensors``."""
        inner, outer, inverse_inner, inverse_outer, *hidden = tensors
        return Saved([h for h in hidden if h is not None], inner, outer, inverse_inner, inverse_outer)


def forward(
    stack: Stack, x: Sequence[Tensor], rows: CountedRows, training: bool, out: list[Tensor], stats: Tensor | None = None
) -> Saved:  # fmt: skip
    """Evaluate all slots, with one input and one result each. Statistics of the last norms are written to ``stats`` if given."""
    if not stack.w2:
        outer, inverse = _map(stack.w1, stack.b1, x, out, rows, None, None, stack.outer, rows.outer, training, found=stats)
        return Saved([], None, outer, None, inverse)
    hidden = list(x[0].new_empty(stack.slots, rows.number, stack.w1[0].size(0)))
    inner, inverse_inner = _map(stack.w1, stack.b1, x, hidden, rows, None, None, stack.inner, rows.inner, training)
    outer, inverse_outer = _map(
        stack.w2, stack.b2, hidden, out, rows, stack.inner, inner, stack.outer, rows.outer, training, act=True, found=stats
    )
    return Saved(hidden, inner, outer, inverse_inner, inverse_outer)


def _map(
    w: list[Tensor], b: list[Tensor], x: Sequence[Tensor], y: list[Tensor], rows: CountedRows, before: Norms | None, stats: Tensor | None,
    after: Norms | None, bit_after: int, training: bool, act: bool = False, found: Tensor | None = None,
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    """One linear map of all slots, with the norm before it and statistics for the norm after it."""
    tile, most, warps, stages = FORWARD
    slots, (number, channels), inputs = len(y), y[0].shape, w[0].size(1)
    count = programs(number, tile, max(1, most // slots))
    some = stats if stats is not None else y[0]
    norm = before if before is not None else after
    scale, shift = (addresses(norm, "scale"), addresses(norm, "shift")) if norm is not None else (pointers(w), pointers(w))
    measured = after is not None and training
    part = y[0].new_empty(slots, count, 2 * channels + 1) if measured else y[0]
    main, tail = (block(inputs), 0) if act else parts(inputs)
    launch(_linear._linear_map, (count, slots),
        x[0], apart(x), pointers(w), pointers(b), y[0], apart(y), rows.flags, some, scale, shift, part, number, inputs, channels,
        BI=main, TAIL=tail, BO=block(channels), BM=tile, STAGES=stages, PREC=precision(), NORM_IN=before is not None, ACT=act,
        BIT_IN=rows.inner, STATS=measured, BIT_OUT=bit_after, num_warps=warps,
    )  # fmt: skip
    if after is None:
        return None, None
    found, inverse = y[0].new_empty(slots, 2, channels) if found is None else found, y[0].new_empty(slots)
    tables = addresses(after, "mean"), addresses(after, "var")
    if training:
        launch(_linear._finish_statistics, (slots, triton.cdiv(channels, 16)),
            part, found, inverse, *tables, after.mask, count, channels, after.momentum, after.eps, BC=16,
            BG=triton.next_power_of_2(count), num_warps=8,
        )  # fmt: skip
    else:
        launch(_linear._running_statistics, (slots,), found, inverse, *tables, after.mask, channels, after.eps, BC=block(channels))
    return found, inverse


def backward(
    stack: Stack, saved: Saved, x: Sequence[Tensor], out: Sequence[Tensor], rows: CountedRows, g: Tensor, g_stride: int, group: Tensor, sums: Tensor | None,
    gx: Sequence[Tensor], add: int = 0,
) -> list[Tensor]:  # fmt: skip
    """Return the gradients of all weights, and write those of the inputs to ``gx``.

    Args:
        stack, saved, x, out, rows: as in the forward pass; a result is read only if a norm follows it.
        g: gradients of the normalised results; slot t reads them from ``group[t] * g_stride`` on.
        g_stride, group: see ``g``.
        sums: sums of g, and of g times the normalised results, for each slot; their norms need them.
        gx: tensors for the gradients of the inputs.
        add: a bit for each slot whose gradient is added to existing values.
    """
    w2, b2, inner_sums = list[Tensor](), list[Tensor](), None
    after = stack.outer, saved.outer, sums, saved.inverse_outer
    if stack.w2:
        each = numbers(tuple(range(stack.slots)), g.device)
        g_hidden = g.new_empty(stack.slots, rows.number, stack.w1[0].size(0))
        (w2, b2), inner_sums = _map_back(
            stack.w2,
            saved.hidden,
            out,
            rows,
            g,
            g_stride,
            group,
            after,
            rows.outer,
            (stack.inner, saved.inner),
            list(g_hidden),
            act=True,
        )
        after = stack.inner, saved.inner, inner_sums, saved.inverse_inner
        d1, _ = _map_back(
            stack.w1, x, saved.hidden, rows, g_hidden, g_hidden.stride(0), each, after, rows.inner, (None, None), gx, add=add
        )
    else:
        d1, _ = _map_back(stack.w1, x, out, rows, g, g_stride, group, after, rows.outer, (None, None), gx, add=add)
    grads = [*d1[0], *d1[1], *w2, *b2]
    for norms, found in ((stack.inner, inner_sums), (stack.outer, sums)):
        if norms is not None:
            assert found is not None
            mine = [t for t, scale in enumerate(norms.scale) if scale is not None]
            grads += [found[t, 1] for t in mine] + [found[t, 0] for t in mine]
    return grads


def _map_back(
    w: list[Tensor], x: Sequence[Tensor], y: Sequence[Tensor], rows: CountedRows, g: Tensor, g_stride: int, group: Tensor,
    after: tuple[Norms | None, Tensor | None, Tensor | None, Tensor | None], bit_after: int,
    before: tuple[Norms | None, Tensor | None], gx: Sequence[Tensor], act: bool = False, add: int = 0,
) -> tuple[tuple[list[Tensor], list[Tensor]], Tensor | None]:  # fmt: skip
    """Backward pass through one linear map: gradients of weights and biases, and the sums that the norm before it needs."""
    slots, (channels, inputs), number = len(w), w[0].shape, rows.number
    few = BACKWARD if slots * number > FEW else BACKWARD_OF_FEW
    tile, most, warps, stages = BACKWARD_OF_WIDE if max(channels, inputs) > WIDE else few
    count = programs(number, tile, max(1, most // slots))
    norm_after, stats_after, sums, inverse = after
    norm_before, stats_before = before
    weight, both = channels * inputs, channels * inputs + channels
    part = g.new_empty(slots, count, both + (2 * inputs if norm_before is not None else 0))
    none = pointers(w)
    out_tables = (addresses(norm_after, "scale"), addresses(norm_after, "shift")) if norm_after is not None else (none, none)
    in_tables = (addresses(norm_before, "scale"), addresses(norm_before, "shift")) if norm_before is not None else (none, none)
    main, tail = (block(inputs), 0) if act else parts(inputs)
    launch(_linear._linear_map_back, (count, slots),
        g, g_stride, group, y[0] if norm_after is not None else g, apart(y) if norm_after is not None else 0, x[0], apart(x), none, rows.flags,
        g if stats_after is None else stats_after, *out_tables, g if sums is None else sums, 0 if sums is None else sums.stride(0),
        0 if norm_after is None else norm_after.mask, g if stats_before is None else stats_before, *in_tables, g if inverse is None else inverse,
        gx[0], apart(gx), add, part, number, inputs, channels,
        BI=main, TAIL=tail, BO=block(channels), BM=tile, STAGES=stages, PREC=precision(),
        NORM_OUT=norm_after is not None, BIT_OUT=bit_after, NORM_IN=norm_before is not None, ACT=act, BIT_IN=rows.inner, ADD=add != 0,
        num_warps=warps,
    )  # fmt: skip
    total = add_up(part, g.new_empty(slots, part.size(2)))
    weights = [total[t, :weight].view(channels, inputs) for t in range(slots)]
    biases = [total[t, weight:both] for t in range(slots)]
    found = total[:, both:].unflatten(1, (2, inputs)) if norm_before is not None else None
    return (weights, biases), found


def norm_sums(out: Sequence[Tensor], stats: Tensor | None, rows: CountedRows, g: Tensor, g_stride: int, group: Tensor) -> Tensor:
    """Sums of g, and of g times the normalised results, over the rows that count for the norms after some slots."""
    tile, most, warps = SUMS
    slots, (number, channels) = len(out), out[0].shape
    count = programs(number, tile, max(1, most // slots))
    part = g.new_empty(slots, count, 2 * channels)
    size, pieces = chunks(channels)
    launch(_linear._norm_sums, (count, slots, pieces),
        g, g_stride, group, out[0], apart(out), stats, rows.flags, part, number, channels, BC=size, BM=tile, BIT=rows.outer, num_warps=warps
    )  # fmt: skip
    return add_up(part, g.new_empty(slots, 2 * channels)).view(slots, 2, channels)


def precision() -> str:
    """The precision of products: TF32 or full float32, as set in torch."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def numbers(values: tuple[int, ...], device: torch.device) -> Tensor:
    """Small integers, cached on the device."""
    if (values, device) not in _NUMBERS:
        _NUMBERS[values, device] = torch.tensor(values, dtype=torch.int32, device=device)
    return _NUMBERS[values, device]


_NUMBERS: dict[tuple[tuple[int, ...], torch.device], Tensor] = {}
