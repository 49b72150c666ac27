"""Who wants to know how training goes."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reign.data.molecules import Report


class Watch:
    """Told of every batch and epoch; this one keeps quiet."""

    def batch(self, label: str, done: int, total: int) -> None:
        """A batch is done, in training or evaluation."""

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        """An epoch is done."""

    def member(self, folder: str, number: int, total: int) -> None:
        """The training of one model of several begins."""

    def table(self, report: "Report") -> None:
        """A table of molecules was read."""

    def note(self, text: str) -> None:
        """Something worth saying happened."""
