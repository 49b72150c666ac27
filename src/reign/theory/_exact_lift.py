"""The input of the first layer of a model as exact numbers: features, marks, labels, and encodings with rational values.

A rational number is represented modulo two primes. Equal numbers have equal residues, so different residues prove a difference.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reign.bags import SubgraphBag
from reign.nn import PAIR_ENCODINGS, Model, encoded

PRIMES = (2**31 - 1, 2**31 - 19)
Lift = Callable[[Tensor, SubgraphBag], Tensor]


def exact_lift(model: Model) -> Lift:
    """The map of a model from features of nodes to pairs, with exact labels and encodings. Raise ``ValueError`` if these have no exact form."""
    labels, encodings = model.labels, model.encodings
    if labels is not None and (labels.kind != "hop" or labels.resistance is not None):
        raise ValueError(f"{type(model).__name__} has labels other than hop distances, which exact tests do not support.")
    if encodings is not None:
        if encodings.every_layer:
            raise ValueError(f"{type(model).__name__} has encodings before every layer, which exact tests do not support.")
        for name in (*encodings.pairs, *encodings.nodes):
            if name.split(":")[0] not in EXACT:
                raise ValueError(
                    f"exact tests do not support the encoding '{name}' of {type(model).__name__}; they support {', '.join(EXACT)}."
                )

    def lift(x: Tensor, bag: SubgraphBag) -> Float[Tensor, "pairs channels"]:
        found = [getattr(model, "exact_lift", model.lift)(x, bag)]
        if labels is not None:
            found += [label[:, None].to(x.dtype) for label in labels.labels(bag)]
        for name in () if encodings is None else (*encodings.pairs, *encodings.nodes):
            kind, _, size = name.partition(":")
            found.append(EXACT[kind](bag, int(size or 0)).to(x.dtype))
        return torch.cat(found, dim=1)

    return lift


def _walks(bag: SubgraphBag, size: int, returns: bool) -> Int[Tensor, "pairs channels"]:
    """Powers of D^-1 A modulo both primes: from the root to the node, or from the node to itself."""
    steps = size or (20 if returns else 21)
    parts = []
    for g in range(bag.num_graphs):
        first, end = bag.graph.ptr[g : g + 2].tolist()
        n = end - first
        source, target = bag.graph.edge_index
        mine = (source >= first) & (source < end)
        A = torch.zeros(n, n, dtype=torch.long).index_put_(
            (source[mine] - first, target[mine] - first), torch.ones(1, dtype=torch.long), accumulate=True
        )
        degrees = A.sum(1).clamp(min=1).tolist()
        powers = []
        for prime in PRIMES:
            scale = torch.tensor([pow(degree, -1, prime) for degree in degrees], dtype=torch.long).view(n, 1)
            step, power = A * scale % prime, torch.eye(n, dtype=torch.long)
            for t in range(steps + 1):
                if t < steps if not returns else t > 0:
                    powers.append(power)
                high = (power >> 16) @ step % prime * 2**16
                power = (high + (power & 0xFFFF) @ step) % prime
        parts.append((first, torch.stack(powers, dim=2)))
    out = torch.zeros(bag.num_pairs, len(PRIMES) * steps, dtype=torch.long)
    for g, (first, values) in enumerate(parts):
        rows = (bag.pair_batch == g).nonzero().squeeze(1)
        node = bag.node[rows] - first
        out[rows] = values[node, node] if returns else values[bag.root[bag.sub[rows]] - first, node]
    return out


EXACT: dict[str, Callable[[SubgraphBag, int], Tensor]] = {
    "hop": lambda bag, size: encoded(bag, [f"hop:{size}" if size else "hop"], PAIR_ENCODINGS, "pair", torch.float64),
    "common": lambda bag, _: encoded(bag, ["common"], PAIR_ENCODINGS, "pair", torch.float64),
    "rrwp": lambda bag, size: _walks(bag, size, False),
    "return": lambda bag, size: _walks(bag, size, True),
}
