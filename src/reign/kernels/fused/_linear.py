r"""Linear maps of stacked slots, together with the operations before and after them, in one pass over the rows in each direction.

.. math:: a = \mathrm{relu}(\mathrm{norm}_{in}(x)), \quad y = a W^T + b, \quad \text{statistics of } y \text{ for } \mathrm{norm}_{out}

A slot is one linear map. Slots of the same shape are evaluated together, one program of the second grid axis each. Their tensors are at
equal distances in memory (for two slots any distance works). Weights are not copied: the kernel reads a table of their addresses. Inputs
slightly wider than a power of two, such as features with marks, are processed in two parts, the second of ``TAIL`` channels. Rows can be
excluded from the norms: bit ``BIT`` of ``flags`` is set for the rows that count. For all others a norm returns zero, without a gradient.
Every program stores its own sums over rows, which are then added in a fixed order, so that results do not depend on the order of execution.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from reign.kernels._plan import CountedRows, Norms, Stack
from reign.kernels.fused._launch import (
    apart,
    block,
    chunks,
    floats,
    i64,
    launch,
    numbers,
    parts,
    pointers,
    precision,
    programs,
)
from reign.kernels.fused._sums import Partial, add_up


@triton.jit
def _weight(table, t):
    """The address of slot t's weights."""
    return tl.load(table + t).to(tl.pointer_type(tl.float32))


@triton.jit
def _dot(a, b, PREC: tl.constexpr):
    """The product of two tiles, added in float32. The interpreter multiplies no bfloat16 ("rounded")."""
    if PREC == "bf16":
        return tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))
    elif PREC == "rounded":
        return tl.dot(a.to(tl.bfloat16).to(tl.float32), b.to(tl.bfloat16).to(tl.float32), input_precision="ieee")
    else:
        return tl.dot(a, b, input_precision=PREC)


@triton.jit
def _moments(stats, gamma, beta, t, c, ok, C):
    """Mean and 1 / deviation of slot t, its scale and shift."""
    mean = tl.load(stats + t * 2 * C + c, mask=ok, other=0.0)
    rstd = tl.load(stats + t * 2 * C + C + c, mask=ok, other=0.0)
    scale = tl.load(_weight(gamma, t) + c, mask=ok, other=0.0)
    shift = tl.load(_weight(beta, t) + c, mask=ok, other=0.0)
    return mean, rstd, scale, shift


@triton.jit
def _counted(flags, rows, m, BIT: tl.constexpr):
    """The mask of rows that count for a norm."""
    if BIT == 0:
        return m
    else:
        return m & ((tl.load(flags + rows, mask=m, other=0) & BIT) != 0)


@triton.jit
def _linear_map(
    x, xs: "i64", w, b, y, ys: "i64", flags, stats, gamma, beta, part, R, CI: tl.constexpr, CO: tl.constexpr,
    BI: tl.constexpr, TAIL: tl.constexpr, BO: tl.constexpr, BM: tl.constexpr, STAGES: tl.constexpr, PREC: tl.constexpr,
    NORM_IN: tl.constexpr, ACT: tl.constexpr, BIT_IN: tl.constexpr, STATS: tl.constexpr, BIT_OUT: tl.constexpr,
):  # fmt: skip
    pid, t = tl.program_id(0), tl.program_id(1)
    ci, co = tl.arange(0, BI), tl.arange(0, BO)
    oki, oko = ci < CI, co < CO
    x += t * xs
    y += t * ys
    weight = tl.load(_weight(w, t) + co[None, :] * CI + ci[:, None], mask=oki[:, None] & oko[None, :], other=0.0)
    if TAIL:
        ct = BI + tl.arange(0, TAIL)
        okt = ct < CI
        weight_t = tl.load(_weight(w, t) + co[None, :] * CI + ct[:, None], mask=okt[:, None] & oko[None, :], other=0.0)
    bias = tl.load(_weight(b, t) + co, mask=oko, other=0.0)
    if NORM_IN:
        mean_in, rstd_in, scale_in, shift_in = _moments(stats, gamma, beta, t, ci, oki, CI)
    n = 0.0
    mean = tl.zeros([BO], tl.float32)
    spread = tl.zeros([BO], tl.float32)
    for tile in tl.range(pid, tl.cdiv(R, BM), tl.num_programs(0), num_stages=STAGES):
        rows = tile * BM + tl.arange(0, BM)
        m = rows < R
        at = rows[:, None].to(tl.int64) * CI + ci[None, :]
        a = tl.load(x + at, mask=m[:, None] & oki[None, :], other=0.0).to(tl.float32)
        if NORM_IN:
            a = (a - mean_in[None, :]) * (rstd_in * scale_in)[None, :] + shift_in[None, :]
        if ACT:
            a = tl.maximum(a, 0.0)
        if NORM_IN:
            a = tl.where(_counted(flags, rows, m, BIT_IN)[:, None], a, 0.0)
        out = _dot(a, weight, PREC) + bias[None, :]
        if TAIL:
            at = rows[:, None].to(tl.int64) * CI + ct[None, :]
            out += _dot(tl.load(x + at, mask=m[:, None] & okt[None, :], other=0.0), weight_t, PREC)
        tl.store(y + rows[:, None].to(tl.int64) * CO + co[None, :], out, mask=m[:, None] & oko[None, :])
        if STATS:
            here = _counted(flags, rows, m, BIT_OUT)[:, None]
            more = tl.sum(here.to(tl.float32))
            mean_here = tl.sum(tl.where(here, out, 0.0), 0) / tl.maximum(more, 1.0)
            away = tl.where(here, out - mean_here[None, :], 0.0)
            delta, total = mean_here - mean, tl.maximum(n + more, 1.0)
            spread += tl.sum(away * away, 0) + delta * delta * (n * more / total)
            mean += delta * (more / total)
            n += more
    if STATS:
        o = part + (t * tl.num_programs(0) + pid) * (2 * CO + 1)
        tl.store(o + co, mean, mask=oko)
        tl.store(o + CO + co, spread, mask=oko)
        tl.store(o + 2 * CO, n)


@triton.jit
def _finish_statistics(
    part, stats, inverse, running_mean, running_var, normed, G, C, momentum, eps,
    BC: tl.constexpr, BG: tl.constexpr,
):  # fmt: skip
    """Mean and 1 / deviation of all rows from the sums of the programs; the running statistics; and 1 / n, or 0 if n < 2.

    A slot without a norm (its bit in ``normed`` is 0) gets mean 0, deviation 1 and 1 / n = 0, for which every formula is the identity.
    """
    t = tl.program_id(0)
    c, g = tl.program_id(1) * BC + tl.arange(0, BC), tl.arange(0, BG)
    ok, here = c < C, g < G
    part += t * G * (2 * C + 1)
    count = tl.load(part + g * (2 * C + 1) + 2 * C, mask=here, other=0.0)
    at = part + g[:, None] * (2 * C + 1) + c[None, :]
    mean = tl.load(at, mask=here[:, None] & ok[None, :], other=0.0)
    within = tl.load(at + C, mask=here[:, None] & ok[None, :], other=0.0)
    n = tl.sum(count)
    centre = tl.sum(mean * count[:, None], 0) / tl.maximum(n, 1.0)
    away = mean - centre[None, :]
    spread = tl.sum(within + away * away * count[:, None], 0)
    old_mean = tl.load(_weight(running_mean, t) + c, mask=ok, other=0.0)
    old_var = tl.load(_weight(running_var, t) + c, mask=ok, other=1.0)
    norm = ((normed >> t) & 1) != 0
    enough = (n >= 2.0) & norm
    var = spread / tl.maximum(n, 1.0)
    tl.store(stats + t * 2 * C + c, tl.where(norm, tl.where(enough, centre, old_mean), 0.0), mask=ok)
    rstd = tl.rsqrt(tl.where(enough, var, old_var) + eps)
    tl.store(stats + t * 2 * C + C + c, tl.where(norm, rstd, 1.0), mask=ok)
    new_mean = old_mean + momentum * (centre - old_mean)
    new_var = old_var + momentum * (spread / tl.maximum(n - 1.0, 1.0) - old_var)
    if enough:  # a slot without a norm has the address of another slot's norm
        tl.store(_weight(running_mean, t) + c, new_mean, mask=ok)
        tl.store(_weight(running_var, t) + c, new_var, mask=ok)
    tl.store(inverse + t, tl.where(enough, 1.0 / tl.maximum(n, 1.0), 0.0))


@triton.jit
def _running_statistics(stats, inverse, running_mean, running_var, normed, C, eps, BC: tl.constexpr):
    """As ``_finish_statistics``, but in evaluation mode."""
    t = tl.program_id(0)
    c = tl.arange(0, BC)
    ok = c < C
    norm = ((normed >> t) & 1) != 0
    mean = tl.load(_weight(running_mean, t) + c, mask=ok, other=0.0)
    var = tl.load(_weight(running_var, t) + c, mask=ok, other=1.0)
    tl.store(stats + t * 2 * C + c, tl.where(norm, mean, 0.0), mask=ok)
    tl.store(stats + t * 2 * C + C + c, tl.where(norm, tl.rsqrt(var + eps), 1.0), mask=ok)
    tl.store(inverse + t, 0.0)


@triton.jit
def _linear_map_back(
    g, gs: "i64", group, y, ys: "i64", x, xs: "i64", w, flags,
    stats_out, gamma_out, beta_out, sums_out, ss, normed, stats_in, gamma_in, beta_in, inverse,
    gx, gxs: "i64", add, part, R, CI: tl.constexpr, CO: tl.constexpr,
    BI: tl.constexpr, TAIL: tl.constexpr, BO: tl.constexpr, BM: tl.constexpr, STAGES: tl.constexpr, PREC: tl.constexpr,
    NORM_OUT: tl.constexpr, BIT_OUT: tl.constexpr,
    NORM_IN: tl.constexpr, ACT: tl.constexpr, BIT_IN: tl.constexpr, ADD: tl.constexpr,
):  # fmt: skip
    """Backward pass through the norm after the map, the map and the activation: gradients of weight and bias, and sums for the norm before.

    If bit t of ``add`` is set, the gradient of slot t's input is added to the existing values (without ``ADD`` no bit is set).
    """
    pid, t = tl.program_id(0), tl.program_id(1)
    ci, co = tl.arange(0, BI), tl.arange(0, BO)
    oki, oko = ci < CI, co < CO
    g += tl.load(group + t).to(tl.int64) * gs
    x += t * xs
    y += t * ys
    gx += t * gxs
    weight = tl.load(_weight(w, t) + co[:, None] * CI + ci[None, :], mask=oko[:, None] & oki[None, :], other=0.0)
    if TAIL:
        ct = BI + tl.arange(0, TAIL)
        okt = ct < CI
        weight_t = tl.load(_weight(w, t) + co[:, None] * CI + ct[None, :], mask=oko[:, None] & okt[None, :], other=0.0)
        dweight_t = tl.zeros([BO, TAIL], tl.float32)
    if NORM_OUT:
        end_y = tl.where(((normed >> t) & 1) != 0, R, 0)  # a result without a norm is not read
        mean_out, rstd_out, scale_out, _ = _moments(stats_out, gamma_out, beta_out, t, co, oko, CO)
        inv = tl.load(inverse + t)
        slope = rstd_out * scale_out  # of the gradient, in dy * slope + (y - mean) * by_y + constant
        constant = tl.load(sums_out + t * ss + co, mask=oko, other=0.0) * (-inv * slope)
        by_y = tl.load(sums_out + t * ss + CO + co, mask=oko, other=0.0) * (-inv * rstd_out * slope)
    if NORM_IN:
        mean_in, rstd_in, scale_in, shift_in = _moments(stats_in, gamma_in, beta_in, t, ci, oki, CI)
        sum_g = tl.zeros([BI], tl.float32)
        sum_gx = tl.zeros([BI], tl.float32)
    end_add = tl.where(((add >> t) & 1) != 0, R, 0)
    dweight = tl.zeros([BO, BI], tl.float32)
    dbias = tl.zeros([BO], tl.float32)
    for tile in tl.range(pid, tl.cdiv(R, BM), tl.num_programs(0), num_stages=STAGES):
        rows = tile * BM + tl.arange(0, BM)
        m = rows < R
        to, ti = rows[:, None].to(tl.int64) * CO + co[None, :], rows[:, None].to(tl.int64) * CI + ci[None, :]
        moko, moki = m[:, None] & oko[None, :], m[:, None] & oki[None, :]
        dy = tl.load(g + to, mask=moko, other=0.0).to(tl.float32)
        if NORM_OUT:
            read = (rows < end_y)[:, None] & oko[None, :]
            away = tl.load(y + to, mask=read, other=0.0).to(tl.float32) - mean_out[None, :]
            dy = dy * slope[None, :] + (away * by_y[None, :] + constant[None, :])
            dy = tl.where(_counted(flags, rows, m, BIT_OUT)[:, None], dy, 0.0)
        a = tl.load(x + ti, mask=moki, other=0.0).to(tl.float32)
        if NORM_IN:
            away_in = a - mean_in[None, :]
            a = away_in * (rstd_in * scale_in)[None, :] + shift_in[None, :]
        if ACT:
            a = tl.maximum(a, 0.0)
        if NORM_IN:
            a = tl.where(_counted(flags, rows, m, BIT_IN)[:, None], a, 0.0)
        dweight += _dot(tl.trans(dy), a, PREC)
        dbias += tl.sum(dy, 0)
        da = _dot(dy, weight, PREC)
        if ACT:
            da = tl.where(a > 0, da, 0.0)
        if NORM_IN:
            sum_g += tl.sum(da, 0)
            sum_gx += tl.sum(da * away_in, 0)
        if ADD:
            da += tl.load(gx + ti, mask=(rows < end_add)[:, None] & oki[None, :], other=0.0)
        tl.store(gx + ti, da, mask=moki)
        if TAIL:
            tt = rows[:, None].to(tl.int64) * CI + ct[None, :]
            mokt = m[:, None] & okt[None, :]
            dweight_t += _dot(tl.trans(dy), tl.load(x + tt, mask=mokt, other=0.0), PREC)
            da_t = _dot(dy, weight_t, PREC)
            if ADD:
                da_t += tl.load(gx + tt, mask=(rows < end_add)[:, None] & okt[None, :], other=0.0)
            tl.store(gx + tt, da_t, mask=mokt)
    o = part + (t * tl.num_programs(0) + pid) * (CO * CI + CO + (2 * CI if NORM_IN else 0))
    tl.store(o + co[:, None] * CI + ci[None, :], dweight, mask=oko[:, None] & oki[None, :])
    if TAIL:
        tl.store(o + co[:, None] * CI + ct[None, :], dweight_t, mask=oko[:, None] & okt[None, :])
    tl.store(o + CO * CI + co, dbias, mask=oko)
    if NORM_IN:
        o += CO * CI + CO
        tl.store(o + ci, sum_g, mask=oki)
        tl.store(o + CI + ci, sum_gx * rstd_in, mask=oki)


@triton.jit
def _norm_sums(
    g, gs: "i64", group, y, ys: "i64", stats, flags, part, R, C: tl.constexpr,
    BC: tl.constexpr, BM: tl.constexpr, BIT: tl.constexpr,
):  # fmt: skip
    """Sums of g and of g times the normalised y over the rows that count, for the backward pass of a norm."""
    pid, t = tl.program_id(0), tl.program_id(1)
    c = tl.program_id(2) * BC + tl.arange(0, BC)
    ok = c < C
    g += tl.load(group + t).to(tl.int64) * gs
    y += t * ys
    mean = tl.load(stats + t * 2 * C + c, mask=ok, other=0.0)
    rstd = tl.load(stats + t * 2 * C + C + c, mask=ok, other=0.0)
    s, q = tl.zeros([BC], tl.float32), tl.zeros([BC], tl.float32)
    for tile in range(pid, tl.cdiv(R, BM), tl.num_programs(0)):
        rows = tile * BM + tl.arange(0, BM)
        m = rows < R
        here = _counted(flags, rows, m, BIT)[:, None] & ok[None, :]
        at = rows[:, None].to(tl.int64) * C + c[None, :]
        dy = tl.load(g + at, mask=here, other=0.0).to(tl.float32)
        s += tl.sum(dy, 0)
        q += tl.sum(dy * (tl.load(y + at, mask=here, other=0.0).to(tl.float32) - mean[None, :]) * rstd[None, :], 0)
    o = part + (t * tl.num_programs(0) + pid) * 2 * C
    tl.store(o + c, s, mask=ok)
    tl.store(o + C + c, q, mask=ok)


# rows of a tile, largest number of programs, warps, stages of loads: few programs if each stores a gradient of the weights
FORWARD, BACKWARD, SUMS = (32, 528, 4, 3), (16, 528, 2, 3), (64, 528, 4)
FORWARD_OF_SHORT = 32, 528, 4, 2  # the same for rows in bfloat16
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


def forward_maps(
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
    tile, most, warps, stages = FORWARD if x[0].dtype == torch.float32 else FORWARD_OF_SHORT
    slots, (number, channels), inputs = len(y), y[0].shape, w[0].size(1)
    count = programs(number, tile, max(1, most // slots))
    some = stats if stats is not None else y[0]
    norm = before if before is not None else after
    scale, shift = (addresses(norm, "scale"), addresses(norm, "shift")) if norm is not None else (pointers(w), pointers(w))
    measured = after is not None and training
    part = floats(y[0], slots, count, 2 * channels + 1) if measured else y[0]
    main, tail = (block(inputs), 0) if act else parts(inputs)
    launch(_linear_map, (count, slots),
        x[0], apart(x), pointers(w), pointers(b), y[0], apart(y), rows.flags, some, scale, shift, part, number, inputs, channels,
        BI=main, TAIL=tail, BO=block(channels), BM=tile, STAGES=stages, PREC=precision(x[0]), NORM_IN=before is not None, ACT=act,
        BIT_IN=rows.inner, STATS=measured, BIT_OUT=bit_after, num_warps=warps,
    )  # fmt: skip
    if after is None:
        return None, None
    found, inverse = floats(y[0], slots, 2, channels) if found is None else found, floats(y[0], slots)
    tables = addresses(after, "mean"), addresses(after, "var")
    if training:
        launch(_finish_statistics, (slots, triton.cdiv(channels, 16)),
            part, found, inverse, *tables, after.mask, count, channels, after.momentum, after.eps, BC=16,
            BG=triton.next_power_of_2(count), num_warps=8,
        )  # fmt: skip
    else:
        launch(_running_statistics, (slots,), found, inverse, *tables, after.mask, channels, after.eps, BC=block(channels))
    return found, inverse


def backward_maps(
    stack: Stack, saved: Saved, x: Sequence[Tensor], out: Sequence[Tensor], rows: CountedRows, g: Tensor, g_stride: int, group: Tensor, sums: Tensor | None,
    gx: Sequence[Tensor], later: Partial, add: int = 0,
) -> list[Tensor]:  # fmt: skip
    """Return the gradients of all weights, and write those of the inputs to ``gx``.

    Args:
        stack, saved, x, out, rows: as in the forward pass; a result is read only if a norm follows it.
        g: gradients of the normalised results; slot t reads them from ``group[t] * g_stride`` on.
        g_stride, group: see ``g``.
        sums: sums of g, and of g times the normalised results, for each slot; their norms need them.
        gx: tensors for the gradients of the inputs.
        later: takes the sums for the gradients of maps, which have their values when it is finished.
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
            later,
            act=True,
        )
        after = stack.inner, saved.inner, inner_sums, saved.inverse_inner
        d1, _ = _map_back(
            stack.w1, x, saved.hidden, rows, g_hidden, g_hidden.stride(0), each, after, rows.inner, (None, None), gx, later, add=add
        )
    else:
        d1, _ = _map_back(stack.w1, x, out, rows, g, g_stride, group, after, rows.outer, (None, None), gx, later, add=add)
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
    before: tuple[Norms | None, Tensor | None], gx: Sequence[Tensor], later: Partial, act: bool = False, add: int = 0,
) -> tuple[tuple[list[Tensor], list[Tensor]], Tensor | None]:  # fmt: skip
    """Backward pass through one linear map: gradients of weights and biases, and the sums that the norm before it needs."""
    slots, (channels, inputs), number = len(w), w[0].shape, rows.number
    few = BACKWARD if slots * number > FEW else BACKWARD_OF_FEW
    tile, most, warps, stages = BACKWARD_OF_WIDE if max(channels, inputs) > WIDE else few
    count = programs(number, tile, max(1, most // slots))
    norm_after, stats_after, sums, inverse = after
    norm_before, stats_before = before
    weight, both = channels * inputs, channels * inputs + channels
    part = floats(g, slots, count, both + (2 * inputs if norm_before is not None else 0))
    none = pointers(w)
    out_tables = (addresses(norm_after, "scale"), addresses(norm_after, "shift")) if norm_after is not None else (none, none)
    in_tables = (addresses(norm_before, "scale"), addresses(norm_before, "shift")) if norm_before is not None else (none, none)
    main, tail = (block(inputs), 0) if act else parts(inputs)
    launch(_linear_map_back, (count, slots),
        g, g_stride, group, y[0] if norm_after is not None else g, apart(y) if norm_after is not None else 0, x[0], apart(x), none, rows.flags,
        g if stats_after is None else stats_after, *out_tables, g if sums is None else sums, 0 if sums is None else sums.stride(0),
        0 if norm_after is None else norm_after.mask, g if stats_before is None else stats_before, *in_tables, g if inverse is None else inverse,
        gx[0], apart(gx), add, part, number, inputs, channels,
        BI=main, TAIL=tail, BO=block(channels), BM=tile, STAGES=stages, PREC=precision(x[0]),
        NORM_OUT=norm_after is not None, BIT_OUT=bit_after, NORM_IN=norm_before is not None, ACT=act, BIT_IN=rows.inner, ADD=add != 0,
        num_warps=warps,
    )  # fmt: skip
    total = later.add(part[:, :, :both])
    weights = [total[t, :weight].view(channels, inputs) for t in range(slots)]
    biases = [total[t, weight:] for t in range(slots)]
    found = add_up(part[:, :, both:]).unflatten(1, (2, inputs)) if norm_before is not None else None
    return (weights, biases), found


def norm_sums(out: Sequence[Tensor], stats: Tensor | None, rows: CountedRows, g: Tensor, g_stride: int, group: Tensor) -> Tensor:
    """Sums of g, and of g times the normalised results, over the rows that count for the norms after some slots."""
    tile, most, warps = SUMS
    slots, (number, channels) = len(out), out[0].shape
    count = programs(number, tile, max(1, most // slots))
    part = floats(g, slots, count, 2 * channels)
    size, pieces = chunks(channels)
    launch(_norm_sums, (count, slots, pieces),
        g, g_stride, group, out[0], apart(out), stats, rows.flags, part, number, channels, BC=size, BM=tile, BIT=rows.outer, num_warps=warps
    )  # fmt: skip
    return add_up(part).view(slots, 2, channels)
