"""A report on a table of molecules."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Report:
    """A report on a table. Rows are counted from 1, below the header.

    Args:
        rows: number of rows.
        left_out: the rows that could not be used, with the reasons.
        duplicates: number of rows that repeat a molecule.
        apart: number of these rows that are in a different split than the molecule they repeat.
        splits: number of rows of each split.
        salts: number of rows that are salts or mixtures.
        spaces: number of rows with white space around a SMILES.
        missing: number of missing labels.
        targets: the targets.
        task: the task.
        chosen: whether the targets were given; if not, they are all columns of numbers.
        not_targets: columns of numbers that are no default targets, with the reasons.
        note: how the file was read, if not as usual.
        warnings: what looks wrong before training, a line for each kind of finding; see ``reign.data.check_labels``.
        in_several_splits: molecules in more than one split: the SMILES, and the rows by split.
        contradicting_labels: molecules with different labels of a target: the SMILES, the target, the rows and their labels. All of them are kept.
    """

    rows: int
    left_out: dict[int, str] = field(default_factory=dict)
    duplicates: int = 0
    apart: int = 0
    splits: dict[str, int] = field(default_factory=dict)
    salts: int = 0
    spaces: int = 0
    missing: int = 0
    targets: list[str] = field(default_factory=list)
    task: str = "regression"
    chosen: bool = True
    not_targets: dict[str, str] = field(default_factory=dict)
    note: str = ""
    warnings: list[str] = field(default_factory=list)
    in_several_splits: list[dict[str, Any]] = field(default_factory=list)
    contradicting_labels: list[dict[str, Any]] = field(default_factory=list)

    def leave_out(self, rows: dict[int, str]) -> None:
        """Add rows that cannot be used, with the reasons."""
        self.left_out = dict(sorted({**self.left_out, **rows}.items()))

    def lines(self) -> list[str]:
        """The report in sentences."""
        out = [self.note] if self.note else []
        out.append(f"{self.rows - len(self.left_out):,} of {self.rows:,} rows read")
        if self.targets:
            every = "all other columns" if self.not_targets else "all columns"
            hint = "" if self.chosen else f"; these are {every} of numbers, use --target-columns to choose some"
            out.append(f"{'targets' if len(self.targets) > 1 else 'target'} ({self.task}): {', '.join(self.targets)}{hint}")
        if self.missing:
            out.append(
                f"{self.missing:,} {'label is' if self.missing == 1 else 'labels are'} missing, and ignored in losses and metrics"
            )
        if self.duplicates:
            where = f"{self.apart:,} in another split" if self.apart else "in the same split"
            out.append(
                f"{self.duplicates:,} {'row repeats' if self.duplicates == 1 else 'rows repeat'} a molecule; all are kept, {where}"
            )
        if self.salts:
            out.append(
                f"{self.salts:,} {'row is a salt or mixture' if self.salts == 1 else 'rows are salts or mixtures'}; each is one graph of several components"
            )
        if self.spaces:
            out.append(
                f"{self.spaces:,} SMILES {'has' if self.spaces == 1 else 'have'} spaces around {'it' if self.spaces == 1 else 'them'}, which are ignored"
            )
        for split, number in self.splits.items():
            if number == 0:
                out.append(f"the {split} split has no rows")
        return out

    def record(self) -> dict[str, Any]:
        """All of the report as values for a file: in sentences, and every row."""
        return {"lines": self.lines(), **asdict(self)}
