"""A custom model from a list of terms."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Unpack

from torch import nn

from reign.bags import Domain
from reign.nn._conv import SubgraphConv, Transform
from reign.nn._encoders import EncoderSpec
from reign.nn._mlp import Activation
from reign.nn._model import Model
from reign.nn._options import Bias, CompositionOptions, Conv, LayerOptions, NormAt, RootNorms, Roots
from reign.nn._registry import MODELS
from reign.nn._state import Aggregation
from reign.policies import Policy

TERM_OPTIONS = ("terms", "root_terms", "transform", "aggregation", "roots", "on_pairs", "norm_at", "bias", "end_act", "root_norms")


@MODELS.register("subgraphgnn")
class SubgraphGNN(Model):
    """A subgraph GNN defined by lists of terms. Every model of the paper is a special case.

    >>> model = SubgraphGNN(16, 64, 6, 1, policy="nm", terms=["own", "local", "transpose"], root_terms=["own", "readout"])
    >>> model
    SubgraphGNN(16 -> 64 x 6 -> 1, policy='nm', terms=['own', 'local', 'transpose'], root_terms=['own', 'readout'])

    Args:
        in_channels: number of channels of node features, after ``node_encoder`` if there is one.
        hidden_channels: number of channels of the layers.
        num_layers: number of layers.
        out_channels: number of channels of the prediction; None gives the pooled vectors themselves.
        terms: terms of all pairs; ["own+local"] if not given.
        root_terms: terms of roots, which then have their own weights.
        policy: any policy.
        transform, aggregation, roots, on_pairs, norm_at, bias, end_act, root_norms: see ``SubgraphConv``.
        conv, edge_dim, edge_encoder, act, norm, domain, expansion, train_eps: see ``LayerOptions``.
        layer: function that makes a custom layer, given the numbers of input and output channels and ``LayerOptions``; or a list of such
            functions, one for each layer. It replaces the layer of terms.
        options: see ``CompositionOptions``.
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
        conv: Conv = "gin",
        edge_dim: int | None = None,
        edge_encoder: EncoderSpec = None,
        aggregation: dict[str, Aggregation] | None = None,
        act: Activation = "relu",
        norm: str | None = "batch_norm",
        domain: Domain = "all",
        expansion: int = 1,
        train_eps: bool = True,
        roots: Roots | None = None,
        on_pairs: bool | None = None,
        norm_at: NormAt | None = None,
        bias: Bias | None = None,
        end_act: bool | None = None,
        root_norms: RootNorms | None = None,
        layer: Callable[..., nn.Module] | Sequence[Callable[..., nn.Module]] | None = None,
        **options: Unpack[CompositionOptions],
    ) -> None:
        shared: LayerOptions = {
            "conv": conv,
            "edge_dim": edge_dim,
            "edge_encoder": edge_encoder,
            "act": act,
            "norm": norm,
            "domain": domain,
            "expansion": expansion,
            "train_eps": train_eps,
        }
        own = terms, root_terms, transform, aggregation, roots, on_pairs, norm_at, bias, end_act, root_norms
        used: dict[str, Any] = {name: value for name, value in zip(TERM_OPTIONS, own, strict=True) if value is not None}
        if layer is None:
            layer = partial(SubgraphConv, **({"terms": ("own+local",)} | used))
        elif used:
            raise ValueError(_has_layers_of_its_own(type(self), used))
        makers = [layer] if callable(layer) else layer
        made = [partial(make, **shared) for make in makers]
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            layer=made[0] if callable(layer) else made,
            policy=policy,
            act=act,
            domain=domain,
            **options,
        )

    @classmethod
    def refusal(cls, name: str, value: object) -> str:
        """The message for an argument that the constructor does not take. Models with fixed layers do not accept terms."""
        if name in TERM_OPTIONS:
            return _has_layers_of_its_own(cls, {name: value})
        return super().refusal(name, value)

    def __repr__(self) -> str:
        sizes = f"{self.in_channels} -> {self.hidden_channels} x {self.num_layers}"
        if self.out_channels is not None:
            sizes += f" -> {self.out_channels}"
        layer = max(map(repr, self.layers), key=len)  # some models have other layers before or after their own
        terms = layer[layer.index(", ") + 2 : -1]
        return f"{type(self).__name__}({sizes}, policy='{self.policy}', {terms})"


def _has_layers_of_its_own(kind: type[Model], used: dict[str, Any]) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in used.items())
    return f"{kind.__name__} has fixed layers, got {given}; use SubgraphGNN to choose terms."
