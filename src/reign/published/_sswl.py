"""SSWL+ and its relatives (Zhang et al. 2023) as their authors published them."""

from collections.abc import Sequence
from functools import partial
from typing import Literal, Unpack

from torch import nn

from reign._validate import check, check_count
from reign.bags import Domain
from reign.nn import MODELS, SSWL, LayerOptions, Model, PublishedEdgeOptions, SubgraphConv, SubgraphGNN
from reign.policies import Policy
from reign.published._weights import Config, Weights, allow, head

Swl = Literal["uL", "vL", "uu", "vv", "vu", "uG", "vG"]
MERGES: dict[str, str] = {
    "uL": "own+local",
    "vL": "own+swap_local",
    "uu": "own+root",
    "vv": "own+node_root",
    "vu": "own+transpose",
    "uG": "own+readout",
    "vG": "own+needle",
}
POOLS: dict[str, str] = {"uG": "readout", "vG": "needle"}


@MODELS.register("sswlpublished", "SSWL+ (published)")
class SSWLPublished(SubgraphGNN):
    """SSWL+ as published: every term merged with x[k, i], one norm after their sum, embedded hop distances, and a pooling layer.

    Args:
        num_layers: number of layers, without the pooling layer.
        policy: any node-based policy.
        aggregations: the terms by their published names: sums over neighbours along nodes "uL" and along subgraphs "vL", the points "uu",
            "vv" and "vu", the sums over a subgraph "uG" and over subgraphs "vG". SSWL+ has "uL", "vL" and "vv", SSWL the first two.
        pool: the sum of the pooling layer, over a subgraph ("uG") or over subgraphs ("vG").
        max_distance: greater hop distances and unreachable nodes share the embedding of this distance.
    """

    needs_node_based = True
    drops_input = False
    wl_bound = SSWL.wl_bound

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy = "null",
        aggregations: Sequence[Swl] = ("uL", "vL", "vv"),
        pool: Literal["uG", "vG"] = "uG",
        max_distance: int = 5,
        domain: Domain = "all",
        **options: Unpack[PublishedEdgeOptions],
    ) -> None:
        check_count("num_layers", num_layers)
        good = not isinstance(aggregations, str) and len(aggregations) > 0 and set(aggregations) <= set(MERGES)
        check("aggregations", aggregations, good, f"one or several of {', '.join(map(repr, MERGES))}")
        check("pool", pool, pool in POOLS, "'uG' or 'vG'")
        layer = partial(SubgraphConv, terms=[MERGES[name] for name in aggregations], norm_at="sum")
        layers = [layer] * num_layers + [partial(_pooling_layer, POOLS[pool])]
        labels = {"kind": "hop", "max_distance": max_distance, "far": False}
        sizes = in_channels, hidden_channels, num_layers, out_channels
        super().__init__(*sizes, policy=policy, layer=layers, labels=labels, domain=domain, **options)


def _pooling_layer(term: str, in_channels: int, out_channels: int, **options: Unpack[LayerOptions]) -> nn.Module:
    """The sum over a subgraph, broadcast to its pairs and transformed there, so that norms count it once for every pair."""
    plain: LayerOptions = {"act": options["act"], "norm": options["norm"], "domain": options["domain"]}
    return SubgraphConv(in_channels, out_channels, [term], on_pairs=True, norm_at="sum", **plain)


# -- weights and settings of subgraph23/SWL ------------------------------------------------------------------------------


def sswl(w: Weights, config: Config, policy: str | None) -> Model:
    """SSWL and SSWL+."""
    allow(config.get("constructor", {}), encode=(True,))
    names, deep, width = list(config["layer"]), config["num_layer"], config["dim_embed"]
    for name in names:
        allow({"layer": name}, layer=("uL", "vL", "vv", "uu", "vu", "uG", "vG"))
    allow(config, pool=("uG", "vG"))
    atoms, bonds = "encode.embed_v.atom_embedding_list.0.weight", "A{}.enc.{}.embed.bond_embedding_list.0.weight"
    edges = next((bonds.format(0, name) for name in names if "L" in name), None)
    model = SSWLPublished(
        width,
        width,
        deep,
        w.get("pool.predict.output.weight").size(0),
        policy=policy or "null",
        aggregations=names,
        pool=config.get("pool", "uG"),
        max_distance=config["max_dis"],
        node_encoder=w.rows(atoms),
        edge_encoder=None if edges is None else w.rows(edges),
    )
    w.put("node_encoder.columns.0.weight", atoms)
    w.put("labels.embedding.weight", "encode.embed_d.weight")
    for t in range(deep):
        for s, name in enumerate(names):
            here, mlp = f"layers.{t}.terms.{s}.encoder", f"A{t}.mlp.{name}"
            w.put(f"{here}.eps", f"A{t}.eps.{name}")
            w.mlp(f"{here}.mlp", f"{mlp}.input", f"{mlp}.input_nr.bn", f"{mlp}.output")
            if "L" in name:
                w.put(f"{here}.edge_encoder.columns.0.weight", bonds.format(t, name))
        w.norm(f"layers.{t}.norm", f"A{t}.nr.bn")
    pool = f"A{deep}.mlp.{config.get('pool', 'uG')}"
    w.mlp(f"layers.{deep}.terms.0.transform", f"{pool}.input", f"{pool}.input_nr.bn", f"{pool}.output")
    w.norm(f"layers.{deep}.norm", f"A{deep}.nr.bn")
    head(w, ["pool.predict.input", "pool.predict.output"])
    return model
