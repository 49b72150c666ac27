"""mu: the head that predicts from pooled vectors."""

from jaxtyping import Float
from torch import Tensor, nn

from reign.nn._mlp import Activation, make_act


class Head(nn.Module):
    """Linear, activation, dropout, Linear.

    Args:
        in_channels: number of channels of the pooled vectors.
        out_channels: number of channels of the prediction.
        act: activation.
        dropout: dropout probability.
    """

    def __init__(self, in_channels: int, out_channels: int, act: Activation = "relu", dropout: float = 0.0) -> None:
        super().__init__()
        self.lin1 = nn.Linear(in_channels, 2 * in_channels)
        self.act = make_act(act)
        self.dropout = nn.Dropout(dropout)
        self.lin2 = nn.Linear(2 * in_channels, out_channels)

    def forward(self, x: Float[Tensor, "rows in_channels"]) -> Float[Tensor, "rows out_channels"]:
        """Predict from pooled vectors."""
        out: Tensor = self.lin2(self.dropout(self.act(self.lin1(x))))
        return out
