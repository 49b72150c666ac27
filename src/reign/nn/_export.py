"""Export a model for one graph, as a program of PyTorch alone."""

import copy
from typing import Any

from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.export import ExportedProgram, export

from reign.bags import SubgraphBag
from reign.kernels import fast_path
from reign.nn._inputs import inputs_of
from reign.nn._model import Model


class _Fixed(nn.Module):
    """A model for one bag, as a function of node features."""

    def __init__(self, model: Model, bag: SubgraphBag) -> None:
        super().__init__()
        self.model, self.bag = model, bag

    def forward(self, x: Shaped[Tensor, "nodes *channels"]) -> Float[Tensor, "rows out_channels"]:
        """The predictions for these features."""
        return self.model.predict(x, self.bag)


def export_program(model: Model, data: Any) -> ExportedProgram:
    """A model for one graph or batch as a program of PyTorch alone: ``program.module()(x)`` predicts for other features of the same graph.

    ``torch.export.save`` writes the program to a file, and ``torch.export.load`` reads it where this library is not installed. The bag and its
    index maps are constants of the program, as are edge features, so it works for this graph only: making the bag of another graph is a search
    whose result has no fixed size, which ``torch.export`` cannot trace.

    Args:
        model: the model, which is exported as in evaluation mode.
        data: a PyG ``Data`` or ``Batch``.
    """
    given = inputs_of(data)
    plain = copy.deepcopy(model).eval()
    if len(plain.policy.draws()) > 1:
        raise ValueError(
            f"policy '{model.policy}' averages several draws of subgraphs, which is not one program; leave eval_draws out."
        )
    bag = given.bag if given.bag is not None else plain.policy.from_data(data, plain.domain)
    plain.prepare(given.x, bag)
    with fast_path(False):  # fused kernels are part of this library
        program = export(_Fixed(plain, bag), (given.x,))
    for name, value in program.constants.items():  # index maps can be parts of one another, which files do not keep
        program.constants[name] = value.clone() if isinstance(value, Tensor) else value
    return program
