"""Load the weights of the authors' code into our models, so that their checkpoints can be used."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reign._validate import kind_of
from reign.nn import DS, DSS, SUN, JumpingKnowledge, Model
from reign.published._gnnak import gnn_ak
from reign.published._nested import idgnn, ngnn_ogb, ngnn_tu
from reign.published._sswl import sswl
from reign.published._tensors import ign2, ppgn
from reign.published._weights import Config, Weights, head

PEERS: dict[str, Callable[[Weights, Config, str | None], Model]] = {
    "gnn_ak": gnn_ak,
    "gnn_ak_ctx": gnn_ak,
    "gnn_ak_plus": gnn_ak,
    "gnn_ak_plus_molhiv": gnn_ak,
    "sswl": sswl,
    "sswl_plus": sswl,
    "ngnn_tu": ngnn_tu,
    "ngnn_ogb": ngnn_ogb,
    "idgnn_idconv": idgnn,
    "idgnn_gcn": idgnn,
    "idgnn_gin": idgnn,
    "ppgn": ppgn,
    "ppgn_old_suffix": ppgn,
    "ign2": ign2,
    "ign2_port": partial(ign2, port=True),
}
# entries of their state_dicts that the forward pass does not use: embeddings of other columns, and layers that are switched off
UNUSED = (
    r"traditional_gnns\.|vn_aggregators\.|.*\.embeddings\.[1-9]\.|.*\.(atom|bond)_embedding_list\.[1-9]\.|.*\.layer\.nn\.|"
    r"output_decoder\.norms\.1\.|.*(out|output)_encoder\.(norms|layers)\.0\.|.*\.nn\.norms\.1\.|.*\.gate_mapper_|.*\.hop_embedder\.|"
    r".*\.(subgraph|context|centroid)_transform\.(norms|layers)\.0\.|A\d+\.eps\.[uv]G"
)
_MODELS = ("sun", "sun_transpose", "sun_linear_residual", "dss", "ds")
# which of their lists holds which of our terms: off the diagonal, and on it; of encoders, and of the norms after them
_DS = "subgraph_gnn.gnn_node."
_OFF = {
    "node_root": "u_vv_list",
    "root": "u_kk_list",
    "own": "u_kv_list",
    "transpose": "u_vk_list",
    "readout": "u_readout_list",
    "own+local": ("gnn_list", "bn_list"),
    "needle+needle_msg": ("gnn_sum_list", "bn_sum_list"),
}
_ON = {
    "own": "u_vv_root_list",
    "readout": "u_readout_root_list",
    "own+local": ("gnn_root_list", "bn_root_list"),
    "needle+needle_msg": ("gnn_root_sum_list", "bn_root_sum_list"),
}


def from_authors(
    params: Mapping[str, Any], model: str = "sun", policy: str | None = None, *, config: Mapping[str, Any] | None = None
) -> Model:
    """Make one of our models with the weights of the authors' model, for integer atom and bond types of shape (n, 1) and (e, 1).

    Args:
        params: the authors' arrays or tensors by name, that is, the ``state_dict`` of one of their models.
        model: "sun", "sun_transpose" (with the transpose term), "sun_linear_residual" (linear maps, no readout, residual
            connections), "dss" or "ds" (sum readout, invariant DeepSets, the last layer or all) for the models of this paper on ZINC. For a peer as published:
            "gnn_ak", "gnn_ak_ctx", "gnn_ak_plus", "gnn_ak_plus_molhiv", "sswl", "sswl_plus", "ngnn_tu", "ngnn_ogb", "idgnn_idconv",
            "idgnn_gcn", "idgnn_gin", "ppgn", "ppgn_old_suffix", "ign2" or "ign2_port".
        policy: the policy that the model was trained with, by its name in this library. If not given, "ego+:3", or for a peer the policy
            in its settings.
        config: the settings of a peer: the arguments of its constructor, and how its subgraphs were made. docs/models.md lists the
            settings that are known; others are refused by name. None for a model of this paper.

    Returns:
        The model in evaluation mode, in the precision of the arrays.
    """
    if model not in (*_MODELS, *PEERS):
        raise ValueError(f"model is '{model}', expected one of {', '.join(map(repr, (*_MODELS, *PEERS)))}.")
    if (config is None) == (model in PEERS):
        raise ValueError(f"config is {kind_of(config)}, expected {'the settings' if model in PEERS else 'None'} of a '{model}'.")
    theirs = {
        name: value.detach().cpu() if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
        for name, value in params.items()
    }
    w = Weights(theirs)
    made = _paper(w, model, policy or "ego+:3") if config is None else _peer(w, model, policy, config)
    state = made.state_dict()
    missing = [name for name in state if name not in w.ours and not name.endswith("num_batches_tracked")]
    if missing:
        raise ValueError(
            f"params lack {len(missing)} arrays of a '{model}', the first is our {missing[0]!r}; got {len(theirs)} arrays."
        )
    unused = [name for name in theirs if name not in w.used and not name.endswith("num_batches_tracked")]
    known = r"u_readout" if model == "sun_linear_residual" else UNUSED if model in PEERS else r"$^"  # present, but not used
    unused = [name for name in unused if not re.match(known, name)]
    unused += [their for our, their in w.sources.items() if our not in state]
    if unused:
        raise ValueError(
            f"params hold {len(unused)} arrays that a '{model}' does not have, the first is {unused[0]!r}; do they belong to another model?"
        )
    for name, value in w.ours.items():
        if name in state and value.shape != state[name].shape:
            expected = tuple(state[name].shape)
            raise ValueError(f"params have shape {tuple(value.shape)} for our '{name}', expected {expected} in this '{model}'.")
    made.to(next(v.dtype for v in w.ours.values() if v.is_floating_point()))
    made.load_state_dict(w.ours, strict=False)
    return made.eval()


def _peer(w: Weights, model: str, policy: str | None, config: Mapping[str, Any]) -> Model:
    """Make a peer as published, and find its weights."""
    try:
        return PEERS[model](w, config, policy)
    except KeyError as error:
        raise ValueError(f"config lacks {error}, which a '{model}' needs; it has {', '.join(map(repr, config))}.") from None


def _empty(theirs: dict[str, Tensor], model: str, policy: str) -> Model:
    """Make our model with the sizes of theirs; its weights are still random."""
    prefix = _DS if model == "ds" else ""
    encoder = prefix + ("atom_encoder" if model == "ds" else "feature_encoder") + ".enc.weight"
    conv = prefix + ("convs" if model == "ds" else "gnn_list")
    if encoder not in theirs or f"{conv}.0.bond_encoder.weight" not in theirs:
        raise ValueError(f"params hold no '{encoder}' or '{conv}.0...', expected the state_dict of the authors' '{model}' on ZINC.")
    atoms, in_channels = theirs[encoder].shape
    layers = 1 + max(int(name.removeprefix(conv + ".").split(".")[0]) for name in theirs if name.startswith(conv + "."))
    sizes = (in_channels, theirs[f"{conv}.0.mlp.3.weight"].size(0), layers)
    shared: dict[str, Any] = {
        "policy": policy,
        "node_encoder": atoms,
        "edge_encoder": theirs[f"{conv}.0.bond_encoder.weight"].size(0),
    }
    if model == "ds":
        widths = [theirs[f"fc_list.{i}.weight"].size(0) for i in range(sum(n.startswith("fc_list") for n in theirs) // 2)]
        jk: JumpingKnowledge = "cat+input" if theirs["fc_list.0.weight"].size(1) > sizes[1] else "last"
        return DS(*sizes, theirs["final_layers.2.weight"].size(0), readout="sum", set_channels=widths, jk=jk, **shared)
    if model == "dss":
        return DSS(*sizes, theirs["final_layers.2.weight"].size(0), **shared)
    out = theirs["final_layers.3.weight"].size(0)
    if model == "sun_linear_residual":
        return SUN(*sizes, out, transform="linear", readout=False, residual=True, **shared)
    return SUN(*sizes, out, transpose=model == "sun_transpose", **shared)


def _paper(w: Weights, model: str, policy: str) -> Model:
    """Make a model of this paper, and find its weights."""
    made = _empty(w.theirs, model, policy)
    put_paper(w, made)
    return made


def put_paper(w: Weights, made: Model) -> None:
    """The weights of a model of this paper, by the authors' names."""
    ds = isinstance(made, DS)
    w.put("node_encoder.columns.0.weight", f"{_DS}atom_encoder.enc.weight" if ds else "feature_encoder.enc.weight")
    for t, layer in enumerate(made.layers):
        for branch, table in (("terms", _OFF), ("root_terms", _ON)):
            for s, slot in enumerate(getattr(layer, branch) or []):
                here, there = f"layers.{t}.{branch}.{s}", (f"{_DS}convs", f"{_DS}batch_norms") if ds else table[slot.name]
                if isinstance(there, tuple):
                    conv = f"{there[0]}.{t}"
                    w.put(f"{here}.encoder.eps", f"{conv}.eps")
                    w.put(f"{here}.encoder.edge_encoder.columns.0.weight", f"{conv}.bond_encoder.weight")
                    w.sequential(f"{here}.encoder.mlp", f"{conv}.mlp")
                    w.norm(f"{here}.norm", f"{there[1]}.{t}")
                elif isinstance(slot.transform, nn.Linear):
                    w.linear(f"{here}.transform", f"{there}.{t}.0")
                else:
                    w.sequential(f"{here}.transform", f"{there}.{t}")
    for ours, theirs in (("each", "fc_list"), ("mean", "fc_sum_list")):
        for i in range(len(getattr(made.pooling, ours, ()))):
            w.linear(f"pooling.{ours}.{i}", f"{theirs}.{i}")
    if made.residual is not None:
        w.linear("residual", "lin1")
    head(w, ["final_layers.0", f"final_layers.{3 if 'final_layers.3.weight' in w else 2}"])
