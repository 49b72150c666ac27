"""Sharpness-aware gradients."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Sharpness:
    r"""Sharpness-aware minimisation: take the gradient at the worst point nearby.

    SAM (Foret et al. 2021) searches in a ball, ASAM (Kwon et al. 2021) in an ellipsoid that scales with the weights:

    .. math:: \epsilon = \rho \, \frac{T_w^2 \nabla L(w)}{\lVert T_w \nabla L(w) \rVert}, \qquad
              T_w = \begin{cases} I & \text{SAM} \\ \operatorname{diag}(|w| + \eta) & \text{ASAM, for weights; } I \text{ for biases}
              \end{cases}

    Args:
        model: the model whose weights are moved.
        rho: radius.
        eta: constant added to the sizes of weights, so that weights near zero can move, too.
        adaptive: whether to use ASAM in place of SAM.
    """

    def __init__(self, model: nn.Module, rho: float, eta: float, adaptive: bool) -> None:
        self.named, self.rho, self.eta, self.adaptive = list(model.named_parameters()), rho, eta, adaptive

    @contextmanager
    def nearby(self) -> Iterator[None]:
        """Move the weights to the worst nearby point, estimated from their gradients. On exit, restore them and keep the new gradients."""
        with torch.no_grad():
            moved = [(p, self._scale(name, p)) for name, p in self.named if p.grad is not None]
            norm = _norm([scale * p.grad for p, scale in moved if p.grad is not None])
            before = [p.clone() for p, _ in moved]
            for p, scale in moved:
                assert p.grad is not None
                p.add_(scale * scale * p.grad * (self.rho / (norm + 1e-16)))
                p.grad = None
        try:
            yield
        finally:
            with torch.no_grad():
                for (p, _), old in zip(moved, before, strict=True):
                    p.copy_(old)

    def _scale(self, name: str, p: Tensor) -> Tensor:
        return p.abs() + self.eta if self.adaptive and not name.endswith("bias") else torch.ones_like(p)


def _norm(values: Iterable[Tensor]) -> Tensor:
    return torch.stack([v.norm() for v in values]).norm()
