"""Layers of all models except ReIGN(2) as SUN layers, and SUN layers under the null policy that mark or delete roots themselves."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from reign.nn import AKConv, IDConv, SubgraphConv, SUNConv
from reign.policies import NodeDeletion, NodeMarking, Null, Policy
from reign.theory._ign3_layers import check_linear
from reign.theory._linear_layers import Weights, activation, ak_parts, stack, sun_layer, weights_of
from reign.theory._to_reign2 import id_in_two


def to_sun(layer: nn.Module) -> list[nn.Module]:
    """SUN layers that compute the same as a layer."""
    if isinstance(layer, AKConv):
        inner, mix = ak_parts(layer)
        d = layer.out_channels
        eye, zero = torch.eye(d, dtype=torch.float64), torch.zeros(d, d, dtype=torch.float64)
        # the paper prints one layer, which reads the readout of k where that of i is needed; here roots are first, then all pairs read them
        roots = {"own": mix["node_root"], "readout": mix["node_readout"], "needle": mix.get("needle", zero), "bias": mix["bias"]}
        first = sun_layer({"own": zero}, roots, activation(layer), layer.domain)
        return [
            *(new for part in inner for new in to_sun(part)),
            first,
            sun_layer({"node_root": eye}, {"own": eye}, None, layer.domain),
        ]
    if isinstance(layer, SUNConv):
        check_linear(layer, "the construction")
        return [layer]
    if isinstance(layer, IDConv):
        return id_in_two(layer, sun_layer)
    assert isinstance(layer, SubgraphConv)
    terms = weights_of(layer)
    return [sun_layer(terms, terms, activation(layer), layer.domain)]


def to_null(layers: Sequence[nn.Module], policy: Policy, domain: str) -> list[nn.Module]:
    """SUN layers that compute under the null policy what the given SUN layers compute under another policy: null, nm or nd.

    One layer is put in front of them. For node marking it makes the marks, because roots have their own weights. For node deletion it makes
    a second copy of the features, without those of the root. All sums over neighbours in the subgraph read this copy, so that the
    root sends no messages, and roots sum none; every layer updates both copies.
    """
    if isinstance(policy, Null):
        return list(layers)
    if not isinstance(policy, NodeDeletion | NodeMarking) or policy.mark == "distance" or domain != "all":
        raise ValueError(
            f"no construction is known for SUN (null) in place of policy '{policy}' with domain='{domain}'; use 'nm' or 'nd' with "
            "domain='all'."
        )
    stack_of = [layer for layer in layers if isinstance(layer, SUNConv)]
    assert len(stack_of) == len(layers)
    features = stack_of[0].in_channels - policy.num_marks
    eye = torch.eye(features, dtype=torch.float64)
    if isinstance(policy, NodeMarking):
        own = torch.cat([torch.zeros(2, features, dtype=torch.float64), eye])
        others, roots = torch.zeros(2, features + 2, dtype=torch.float64)
        others[1], roots[0] = 1, 1
        return [sun_layer({"own": own, "bias": others}, {"own": own, "bias": roots}, None, "all"), *layers]
    first = sun_layer({"own": stack(eye, eye)}, {"own": stack(0 * eye, eye)}, None, "all")
    return [first, *(_without_roots(layer, last=layer is layers[-1]) for layer in stack_of)]


def _without_roots(layer: SUNConv, last: bool) -> SUNConv:
    """A layer of two copies, of which the first is 0 at roots. The last layer makes the second copy only."""

    def doubled(weights: Weights, on: bool) -> Weights:
        made: Weights = {}
        for name, weight in weights.items():
            wide = weight
            if name != "bias":  # messages in subgraphs are read from the first copy, all others from the second
                nothing = torch.zeros_like(weight)
                wide = torch.cat([weight, nothing] if name == "local" else [nothing, weight], dim=1)
            if not (on and name == "local"):
                made[name] = wide if last else _copies(wide, on)
        return made

    return sun_layer(doubled(weights_of(layer), False), doubled(weights_of(layer, on=True), True), activation(layer), "all")


def _copies(weight: Tensor, on: bool) -> Tensor:
    return stack(torch.zeros_like(weight) if on else weight, weight)
