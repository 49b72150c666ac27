"""A model of one's own: name the terms."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import nn

from reign.bags import Domain
from reign.nn._conv import SubgraphConv, Transform
from reign.nn._encoders import EncoderSpec
from reign.nn._mlp import Activation
from reign.nn._model import Model
from reign.nn._state import Aggregation
from reign.policies import Policy


class SubgraphGNN(Model):
    """A subgraph GNN from lists of terms; every model of the paper is one.

    >>> model = SubgraphGNN(16, 64, 6, 1, policy="nm", terms=["own", "local", "transpose"], root_terms=["own", "readout"])
    >>> model
    SubgraphGNN(16 -> 64 x 6 -> 1, policy='nm', terms=['own', 'local', 'transpose'], root_terms=['own', 'readout'])

    Args:
        in_channels: of node features, after ``node_encoder`` if there is one.
        hidden_channels: of the layers.
        num_layers: of them.
        out_channels: of the prediction; None gives the pooled vectors themselves.
        terms: of all pairs; ["own+local"] if not given.
        root_terms: of roots, which then have weights of their own.
        policy, transform, conv, edge_dim, edge_encoder, aggregation, act, norm, domain, expansion, train_eps: see
            ``SubgraphConv``.
        options: all other options of ``Model``: policy, pooling, node_encoder, dropout, jk, residual, task_level.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        terms: Sequence[str] | None = None,
        root_terms: Sequence[str] | None = None,
        policy: str | Policy = "ego+:3",
        transform: Transform | None = None,
        conv: str | Callable[..., nn.Module] = "gin",
        edge_dim: int | None = None,
        edge_encoder: EncoderSpec = None,
        aggregation: dict[str, Aggregation] | None = None,
        act: Activation = "relu",
        norm: str | None = "batch_norm",
        domain: Domain = "all",
        expansion: int = 1,
        train_eps: bool = True,
        layer: Callable[..., nn.Module] | None = None,
        **options: Any,
    ) -> None:
        shared: dict[str, Any] = {
            "conv": conv,
            "edge_dim": edge_dim,
            "edge_encoder": edge_encoder,
            "act": act,
            "norm": norm,
            "domain": domain,
            "expansion": expansion,
            "train_eps": train_eps,
        }
        if layer is None:
            layer = partial(
                SubgraphConv,
                terms=("own+local",) if terms is None else terms,
                root_terms=root_terms,
                transform=transform or "mlp",
                aggregation=aggregation,
                **shared,
            )
        else:
            given = {"terms": terms, "root_terms": root_terms, "transform": transform, "aggregation": aggregation}
            if used := [f"{name}={value!r}" for name, value in given.items() if value is not None]:
                raise ValueError(
                    f"{type(self).__name__} has layers of its own, got {', '.join(used)}; use SubgraphGNN to name terms."
                )
            layer = partial(layer, **shared)
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            layer=layer,
            policy=policy,
            act=act,
            domain=domain,
            **options,
        )

    def __repr__(self) -> str:
        sizes = f"{self.in_channels} -> {self.hidden_channels} x {self.num_layers}"
        if self.out_channels is not None:
            sizes += f" -> {self.out_channels}"
        layer = repr(self.layers[0])
        terms = layer[layer.index(", ") + 2 : -1]
        return f"{type(self).__name__}({sizes}, policy='{self.policy}', {terms})"
