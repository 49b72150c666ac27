"""Callbacks: the events that training and prediction report."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reign.data.molecules import Report


class Callback:
    """Receives the events of training. This class ignores them; subclasses show progress or collect curves."""

    def batch(self, label: str, done: int, total: int) -> None:
        """Called after every batch, in training or prediction."""

    def rows(self, done: int, total: int, seconds: float | None) -> None:
        """Called while a table is predicted, with the number of rows that are done and an estimate of the seconds that are left."""

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        """Called after every epoch."""

    def member(self, folder: str, number: int, total: int) -> None:
        """Called before the training of each model of a run."""

    def job(self, label: str, number: int, total: int) -> "Callback":
        """Return the callback for one of several models that are trained at once."""
        return self

    def table(self, report: "Report") -> None:
        """Called after a table of molecules has been read."""

    def note(self, text: str) -> None:
        """Called with a message that a user should see."""
