"""Callbacks: what training tells those who want to know how it goes."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reign.data.molecules import Report


class Callback:
    """Is told of every batch, epoch and model; this one does nothing. Subclasses show progress, or collect a curve."""

    def batch(self, label: str, done: int, total: int) -> None:
        """A batch is done, in training or prediction."""

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        """An epoch is done."""

    def member(self, folder: str, number: int, total: int) -> None:
        """The training of one of the models of a run begins."""

    def job(self, label: str, number: int, total: int) -> "Callback":
        """Several models are trained at once: what is told of one of them."""
        return self

    def table(self, report: "Report") -> None:
        """A table of molecules was read."""

    def note(self, text: str) -> None:
        """Something happened that a user should know."""
