"""SSWL, SSWL+ and their relatives of subgraph23/SWL."""

from reign.nn._model import Model
from reign.nn.authors._weights import Config, Weights, allow, head
from reign.nn.models import SSWLPublished


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
