"""The MLP of the paper's experiments, norms over ragged rows, and modules whose weights can be drawn again."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch_geometric.nn.resolver import activation_resolver

from reign.kernels import kernels_for
from reign.nn._arguments import explain

Activation = str | Callable[[Tensor], Tensor] | None
NormRows = Int[Tensor, "kept"] | Bool[Tensor, "rows"] | None  # the rows that the statistics of a norm range over; None for all


class Resettable(nn.Module):
    """A module that can draw its weights again. Its parts draw theirs; weights that belong to no part are set in ``reset_own``.

    Its docstring explains all arguments of its constructor (see ``_arguments``).
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        explain(cls)

    def reset_parameters(self) -> None:
        """Draw all weights again and forget the statistics of norms, so that the module is as good as new."""
        for part in self.children():
            reset(part)
        with torch.no_grad():
            self.reset_own()

    def reset_own(self) -> None:
        """Set the weights that belong to no part of the module. By default there are none."""
        if own := next((name for name, _ in self.named_parameters(recurse=False)), None):
            raise ValueError(
                f"{type(self).__name__} has the weight '{own}' but no reset_own, so it cannot be reset; define reset_own."
            )


def reset(module: nn.Module) -> None:
    """Call ``reset_parameters`` of a module, or of its parts if it has no such method."""
    if callable(own := getattr(module, "reset_parameters", None)):
        own()
        return
    if name := next((name for name, _ in module.named_parameters(recurse=False)), None):
        raise ValueError(
            f"{type(module).__name__} has the weight '{name}' but no reset_parameters, so its weights cannot be drawn again; define it."
        )
    for part in module.children():
        reset(part)


class BatchNorm(nn.BatchNorm1d):
    """Batch norm that also accepts a single row. A single row has no variance, so it is normalised with the running statistics, even
    in training.
    """

    def forward(self, x: Float[Tensor, "rows channels"]) -> Float[Tensor, "rows channels"]:
        """Normalise all rows."""
        if self.training and x.size(0) < 2:
            return nn.functional.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(x)

    def masked(
        self, x: Float[Tensor, "rows channels"], mask: Bool[Tensor, "rows"], relu: bool = False
    ) -> Float[Tensor, "rows channels"]:
        """Normalise the rows in the mask with their statistics and set all others to zero. No size is read back from the device.

        Args:
            x: the rows.
            mask: Boolean mask of the rows.
            relu: whether to apply a ReLU afterwards.
        """
        kernels = kernels_for(x) if self.running_mean is not None and self.running_mean.dtype == torch.float32 else None
        if kernels is not None and self.momentum is not None and self.running_mean is not None and x.numel():
            if self.training and self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
            state = kernels.NormState(self.running_mean, self.running_var, self.momentum, self.eps, self.training, relu)
            done: Tensor = kernels.norm_rows(x, mask, self.weight, self.bias, state)
            return done
        weight = mask.to(x.dtype)[:, None]
        mean, var = self.running_mean, self.running_var
        assert mean is not None
        assert var is not None
        if self.training:
            number = weight.sum()
            enough = number >= 2
            here = (x * weight).sum(0) / number.clamp(min=1)
            squares = ((x - here).square() * weight).sum(0)
            with torch.no_grad():
                momentum = enough.to(mean.dtype) * (0.1 if self.momentum is None else self.momentum)
                old_mean, old_var = mean.clone(), var.clone()
                mean.lerp_(here.to(mean.dtype), momentum)
                var.lerp_((squares / (number - 1).clamp(min=1)).to(var.dtype), momentum)
                if self.num_batches_tracked is not None:
                    self.num_batches_tracked.add_(1)
            mean = torch.where(enough, here, old_mean)
            var = torch.where(enough, squares / number.clamp(min=1), old_var)
        out = (x - mean) * (var + self.eps).rsqrt() * self.weight + self.bias
        out = torch.where(mask[:, None], out, 0).to(x.dtype)
        return out.relu() if relu else out


class NoNorm(nn.Identity):
    """No norm."""


def normalise(
    norm: nn.Module, x: Float[Tensor, "rows channels"], rows: NormRows = None, act: nn.Module | None = None
) -> Float[Tensor, "rows channels"]:
    """Apply a norm whose statistics range over some rows only, and an activation. If the norm has statistics, it sets the other rows to zero.

    Args:
        norm: the norm.
        x: the rows.
        rows: indices or a Boolean mask of the rows that the statistics range over; all rows if not given.
        act: the activation.
    """
    if rows is None or isinstance(norm, nn.LayerNorm | NoNorm):
        out = norm(x)
    elif rows.dtype == torch.bool:
        assert isinstance(norm, BatchNorm)
        relu = isinstance(act, nn.ReLU)
        out, act = norm.masked(x, rows, relu), None if relu else act
    else:
        out = torch.zeros_like(x).index_copy(0, rows, norm(x.index_select(0, rows)).to(x.dtype))
    done: Tensor = out if act is None else act(out)
    return done


def num_parameters(*modules: nn.Module | None) -> int:
    """Count the parameters of all given modules."""
    return sum(p.numel() for module in modules if module is not None for p in module.parameters())


def make_norm(norm: str | None, channels: int) -> nn.Module:
    """Make a norm by name.

    Args:
        norm: "batch_norm", "layer_norm" or None.
        channels: number of channels.
    """
    if norm is None:
        return NoNorm()
    name = norm.lower().replace("_", "").removesuffix("norm") if isinstance(norm, str) else ""
    if name == "batch":
        return BatchNorm(channels)
    if name == "layer":
        return nn.LayerNorm(channels)
    raise ValueError(f"norm is {norm!r}, expected 'batch_norm', 'layer_norm' or None.")


def make_act(act: Activation) -> nn.Module:
    """Make an activation by name, as in PyG; None is the identity."""
    if act is None:
        return nn.Identity()
    if not isinstance(act, str) and not callable(act):
        raise ValueError(f"act is {act!r}, expected the name of an activation as in PyG, a function, or None.")
    if isinstance(act, type):
        act = act()
    try:
        module: nn.Module = activation_resolver(act)
    except TypeError as error:
        raise ValueError(f"act is {act!r}, which needs arguments ({error}); give an instance of the activation.") from None
    return module


class MLP(Resettable):
    """Linear, norm, activation, Linear.

    Args:
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        hidden: number of hidden channels; ``out_channels`` if not given.
        norm: "batch_norm", "layer_norm" or None.
        act: activation.
        bias: whether the linear maps have biases.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden: int | None = None,
        norm: str | None = "batch_norm",
        act: Activation = "relu",
        bias: bool = True,
    ) -> None:
        super().__init__()
        hidden = hidden or out_channels
        self.lin1 = nn.Linear(in_channels, hidden, bias=bias)
        self.norm = make_norm(norm, hidden)
        self.act = make_act(act)
        self.lin2 = nn.Linear(hidden, out_channels, bias=bias)

    def forward(self, x: Float[Tensor, "rows in_channels"], rows: NormRows = None) -> Float[Tensor, "rows out_channels"]:
        """Transform every row; the statistics of the norm are taken over ``rows`` only."""
        out: Tensor = self.lin2(normalise(self.norm, self.lin1(x), rows, self.act))
        return out


class Linear(nn.Linear):
    """A linear map that is called like an ``MLP``. It has no norm, so it ignores ``rows``."""

    def forward(self, x: Float[Tensor, "rows in_channels"], rows: NormRows = None) -> Float[Tensor, "rows out_channels"]:
        """Transform every row."""
        return super().forward(x)
