"""mu: the head that predicts from pooled vectors."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from reign._validate import check
from reign.nn._mlp import Activation, NormRows, Resettable, make_act, make_norm, normalise


class Head(Resettable):
    """Linear, norm, activation and dropout for every hidden layer, followed by a linear map.

    Args:
        in_channels: number of channels of the pooled vectors.
        out_channels: number of channels of the prediction.
        act: activation.
        dropout: dropout probability after every hidden layer.
        hidden: numbers of channels of the hidden layers; one layer of ``2 * in_channels`` if not given, a single linear map if empty.
        norm: norm in every hidden layer, "batch_norm", "layer_norm" or None.
        bias: whether hidden layers have biases; the last linear map always has one.
        input_dropout: dropout probability of the pooled vectors.
        log_softmax: whether the predictions are log-probabilities of classes.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        act: Activation = "relu",
        dropout: float = 0.0,
        *,
        hidden: Sequence[int] | None = None,
        norm: str | None = None,
        bias: bool = True,
        input_dropout: float = 0.0,
        log_softmax: bool = False,
    ) -> None:
        super().__init__()
        hidden = [2 * in_channels] if hidden is None else hidden
        good = isinstance(hidden, list | tuple) and all(type(size) is int and size >= 1 for size in hidden)
        check("head.hidden", hidden, good, "a list of whole numbers of at least 1")
        widths = [in_channels, *hidden, out_channels]
        self.depth, self.log_softmax = len(widths) - 1, log_softmax
        for place, (a, b) in enumerate(pairwise(widths), 1):
            self.add_module(f"lin{place}", nn.Linear(a, b, bias=bias or place == self.depth))
            if place < self.depth:
                self.add_module(f"norm{place}", make_norm(norm, b))
        self.act = make_act(act)
        self.dropout, self.input_dropout = nn.Dropout(dropout), nn.Dropout(input_dropout)

    def forward(self, x: Float[Tensor, "rows in_channels"], rows: NormRows = None) -> Float[Tensor, "rows out_channels"]:
        """Predict from pooled vectors; the statistics of norms are taken over ``rows`` only."""
        x = self.input_dropout(x)
        for place in range(1, self.depth):
            norm = self.get_submodule(f"norm{place}")
            x = self.dropout(self.act(normalise(norm, self.get_submodule(f"lin{place}")(x), rows)))
        x = self.get_submodule(f"lin{self.depth}")(x)
        return torch.log_softmax(x, dim=1) if self.log_softmax else x
