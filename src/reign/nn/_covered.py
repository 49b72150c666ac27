"""Which layers are covered by fused kernels on a GPU and by blocks of rows on a CPU; the others run with plain operations."""

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from torch import nn

from reign.nn._base_encoders import GIN
from reign.nn._mlp import MLP, BatchNorm, Linear, NoNorm
from reign.nn._slots import EncoderSlot, Slot

if TYPE_CHECKING:
    from reign.nn._conv import SubgraphConv

_covered: WeakKeyDictionary[nn.Module, tuple[object, bool]] = WeakKeyDictionary()  # what was looked at, and the answer


def known_to_be_covered(conv: "SubgraphConv", inside: list[nn.Module], widest: int | None) -> bool:
    """The same as ``covered``, which looks at a layer only once as long as the modules inside of it, and their norms, stay the same."""
    norms = [(m.momentum is None, m.running_mean is None) for m in inside if isinstance(m, BatchNorm)]
    if conv not in _covered or _covered[conv][0] != (inside, norms, widest):
        _covered[conv] = (inside, norms, widest), covered(conv, widest)
    return _covered[conv][1]


def watched(inside: list[nn.Module]) -> bool:
    """Whether some of the modules inside of a layer has hooks, which only run where the module itself is called."""
    every = nn.modules.module
    if every._global_forward_hooks or every._global_forward_pre_hooks or every._global_backward_hooks:
        return True
    return any(hooked(m) for m in inside)


def hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks)


def modules_inside(module: nn.Module) -> list[nn.Module]:
    """All modules inside of a module; ``modules()`` takes several times as long, which counts where batches are small."""
    found = [m for m in module._modules.values() if m is not None]
    for m in found:
        found.extend(inner for inner in m._modules.values() if inner is not None)
    return list(dict.fromkeys(found))


def covered(conv: "SubgraphConv", widest: int | None) -> bool:
    """Whether kernels that take so many channels cover everything a layer does."""
    pair_slots = [slot for slot in conv.slots() if slot.scope == "pair"]
    return (
        bool(pair_slots)
        and (isinstance(conv.norm, NoNorm) or (conv.root_terms is None and _norm_covered(conv.norm)))
        and isinstance(conv.root_norm, NoNorm | None)
        and conv.roots == "apart"
        and isinstance(conv.act, nn.ReLU | nn.Identity)
        and (widest is None or max(_widths(conv)) <= widest)
        and all(_simple(slot) for slot in [*conv.slots(), *conv.slots(on=True)])
    )


def ends_with_norm(conv: "SubgraphConv") -> bool:
    """Whether the sum of all terms is normalised; the norm and the activation then follow after the stage."""
    return not isinstance(conv.norm, NoNorm)


def _simple(slot: Slot) -> bool:
    """Whether a slot is a linear map, or an MLP with ReLU and with batch norms or no norms."""
    if isinstance(slot, EncoderSlot):
        encoder = slot.encoder
        return isinstance(encoder, GIN) and _norm_covered(slot.norm) and _mlp_covered(encoder.mlp)
    return type(slot.transform) is Linear or (type(slot.transform) is MLP and _mlp_covered(slot.transform))


def _mlp_covered(mlp: MLP) -> bool:
    return (
        isinstance(mlp.act, nn.ReLU)
        and _norm_covered(mlp.norm)
        and all(type(lin).forward is nn.Linear.forward for lin in (mlp.lin1, mlp.lin2))
    )


def _widths(conv: "SubgraphConv") -> list[int]:
    """The numbers of channels that there are in a layer."""
    return [conv.in_channels, *(module.out_features for module in conv.modules() if isinstance(module, nn.Linear))]


def _norm_covered(norm: nn.Module) -> bool:
    return isinstance(norm, NoNorm) or (isinstance(norm, BatchNorm) and norm.momentum is not None and norm.running_mean is not None)
