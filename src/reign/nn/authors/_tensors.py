"""PPGN of hadarser/ProvablyPowerfulGraphNetworks_torch, and 2-IGN of Haggaim/InvariantGraphNetworks and its port to PyTorch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from reign.nn._model import Model
from reign.nn.authors._weights import Config, Weights, allow, head
from reign.nn.models import IGN2Published, PPGNPublished


def ppgn(w: Weights, config: Config, policy: str | None) -> Model:
    """PPGN, with its new and its old suffix."""
    a, out = config["config_object"]["architecture"], config["config_object"]["num_classes"]
    widths, depth, new = a["block_features"], a["depth_of_mlp"], a["new_suffix"]
    last = [f"fc_layers.{place}.fc" for place in range(len(widths) if new else 3)]
    model = PPGNPublished(
        config["num_atom_types"],
        widths[-1],
        len(widths),
        out,
        widths=widths,
        depth=depth,
        suffix="new" if new else "old",
        head_channels=[] if new else [w.get(f"{name}.weight").size(0) for name in last[:-1]],
        **_tensor(config, policy),
    )
    for t in range(len(widths)):
        for ours, theirs in (("left", "mlp1"), ("right", "mlp2")):
            for r in range(depth):
                w.linear(f"layers.{t}.{ours}.{r}", f"reg_blocks.{t}.{theirs}.convs.{r}")
        w.linear(f"layers.{t}.skip", f"reg_blocks.{t}.skip.conv")
    if new:  # one linear map of all blocks, the diagonals first; its bias is the sum of theirs
        halves = [w.get(f"{name}.weight").chunk(2, dim=1) for name in last]
        w.ours["head.lin1.weight"] = torch.cat([half for side in zip(*halves, strict=True) for half in side], dim=1)
        w.ours["head.lin1.bias"] = torch.stack([w.get(f"{name}.bias") for name in last]).sum(0)
    else:
        head(w, last)
    return model


def ign2(w: Weights, config: Config, policy: str | None, *, port: bool = False) -> Model:
    """2-IGN: the layers of the port, combined as in the original or as in the port, which always takes means."""
    widths = config["architecture"]
    if not port:
        allow(config, normalization=("inf", None))
    last = ["fully1", "fully2", "fully3"]
    end = f"equi_layers.{len(widths)}"
    model = IGN2Published(
        config["num_atom_types"],
        widths[-1],
        len(widths),
        w.get("fully3.weight").size(0),
        widths=widths,
        aggregation="mean" if port or config.get("normalization", "inf") == "inf" else "sum",
        suffix="nodes" if port else "max",
        pooled_channels=w.get(f"{end}.coeffs").size(1) if port else None,
        head_channels=[w.get(f"{name}.weight").size(0) for name in last[:-1]],
        linear=port,
        log_softmax=port,
        **_tensor(config, policy),
    )
    off = {"root_needle": 5, "readout": 6, "needle": 7, "node_readout": 8, "own": 9, "transpose": 10, "root": 11}
    off |= {"node_root": 12, "roots": 13, "total": 14}
    on = {"own": 0, "roots": 1, "readout": 2, "root_needle": 3, "total": 4}

    def matrix(place: int) -> Callable[[Tensor], Tensor]:
        return lambda coeffs: coeffs[:, :, place].t()

    for t, layer in enumerate(model.layers):
        for branch, places, bias in (("terms", off, "all_bias"), ("root_terms", on, "diag_bias")):
            for s, slot in enumerate(getattr(layer, branch)):
                w.put(f"layers.{t}.{branch}.{s}.transform.weight", f"equi_layers.{t}.coeffs", matrix(places[slot.name]))
            w.put(f"layers.{t}.{branch}.0.transform.bias", f"equi_layers.{t}.{bias}", torch.flatten)
    if port:
        for place in range(len(on)):
            w.put(f"pooling.maps.{place}.weight", f"{end}.coeffs", matrix(place))
        w.put("pooling.maps.0.bias", f"{end}.bias", torch.flatten)
    head(w, last)
    return model


def _tensor(config: Config, policy: str | None) -> dict[str, Any]:
    """The form of the input tensor, determined by the number of channels at the start of ``config["input"]``."""
    if policy not in (None, "null"):
        raise ValueError(f"policy is {policy!r}, expected None: PPGN and 2-IGN take all pairs of nodes.")
    atoms, bonds, channels = config["num_atom_types"], config["num_bond_types"], str(config["input"]).split()[0]
    if channels == str(atoms + 1):
        return {"tensor": "degrees", "node_encoder": "one-hot", "edge_encoder": None}
    if channels == str(atoms + 2 + bonds):
        return {"tensor": "distances", "node_encoder": "one-hot", "edge_encoder": "one-hot", "edge_dim": bonds}
    raise ValueError(f"config has input={config['input']!r}, expected '{atoms + 1} channels' or '{atoms + 2 + bonds} channels'.")
