"""Peers as their authors published them, made from the weights and settings of the authors' code.

Every function in ``PEERS`` makes one of our models with the sizes of theirs, and maps each of our weights to one of their arrays.
"""

from collections.abc import Callable
from functools import partial

from reign.nn._model import Model
from reign.nn.authors._gnnak import gnn_ak
from reign.nn.authors._nested import idgnn, ngnn_ogb, ngnn_tu
from reign.nn.authors._sswl import sswl
from reign.nn.authors._tensors import ign2, ppgn
from reign.nn.authors._weights import Config, Weights

__all__ = ["PEERS", "UNUSED", "Weights"]

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
