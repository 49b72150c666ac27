"""A job: the training of one model of a run."""

from dataclasses import dataclass
from pathlib import Path

from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import Fabric
from reign.train.members import Member, train_member
from reign.train.settings.config import Recipe


@dataclass
class Job:
    """The training of one model.

    Args:
        recipe: the settings of its run.
        member: the model.
        root: the folder of the run.
        number, total: the index of the model, and the number of models of the run.
    """

    recipe: Recipe
    member: Member
    root: Path
    number: int
    total: int
    error: BaseException | None = None

    @property
    def label(self) -> str:
        """A short name."""
        return str(self.member.folder.relative_to(self.root))

    def run(self, fabric: Fabric, callback: Callback) -> None:
        """Train the model."""
        callback.member(self.label, self.number, self.total)
        train_member(self.recipe, self.member, fabric, callback)

    def try_run(self, fabric: Fabric, callback: Callback) -> None:
        """Train the model. An ordinary error is not raised, but kept in ``error``."""
        try:
            self.run(fabric, callback)
        except (ValueError, OSError, RuntimeError) as error:
            self.error = error
