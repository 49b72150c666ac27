"""The parts of GIN's update, from which base encoders are built."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from reign.kernels import kernels_for
from reign.nn._edge_encoders import make_edge_encoder
from reign.nn._encoders import EncoderSpec
from reign.nn._mlp import MLP, Activation


@dataclass(frozen=True)
class GINParts:
    r"""The parts of :math:`\mathrm{MLP}((1 + \epsilon) x_i + \sum_j m_{ij})`, where the messages :math:`m_{ij}` may depend on edge features.

    Args:
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        edge_dim, edge_encoder, expansion, train_eps: see ``MessageOptions``.
        norm, act: see ``TransformOptions``.
        bias: whether the linear maps of MLPs have biases.
    """

    in_channels: int
    out_channels: int
    edge_dim: int | None = None
    edge_encoder: EncoderSpec = None
    norm: str | None = "batch_norm"
    act: Activation = "relu"
    expansion: int = 1
    train_eps: bool = True
    bias: bool = True

    def mlp(self) -> MLP:
        """A new MLP."""
        hidden = self.expansion * self.out_channels
        return MLP(self.in_channels, self.out_channels, hidden=hidden, norm=self.norm, act=self.act, bias=self.bias)

    def eps(self, number: int = 1) -> nn.Parameter:
        """New epsilons, which are 0."""
        return nn.Parameter(torch.zeros(number), requires_grad=self.train_eps)

    def edges(self) -> nn.Module | None:
        """A new encoder of edge features; None if there are none."""
        return make_edge_encoder(self.edge_encoder, self.edge_dim, self.in_channels)


def own_and_sum(
    own: Float[Tensor, "rows channels"], total: Float[Tensor, "rows channels"], eps: Tensor
) -> Float[Tensor, "rows channels"]:
    r"""The input of GIN's MLP: :math:`(1 + \epsilon) x_i + \sum_j m_{ij}`.

    Args:
        own: the values.
        total: the sums of their messages.
        eps: one number.
    """
    if (kernels := kernels_for(own)) is not None and own.shape == total.shape and total.dtype == own.dtype:
        done: Tensor = kernels.own_and_sum(own, total, eps)
        return done
    return (1 + eps) * own + total
