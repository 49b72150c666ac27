"""Explain the predictions for molecules given as SMILES."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from reign.data.molecules import Molecule, need_columns, read_table
from reign.explain import explain
from reign.plots._explanation import Explained
from reign.train.predictor import Predictor

Progress = Callable[[Iterable[str], str], Iterable[str]]


def explain_smiles(
    predictor: Predictor, texts: Sequence[str], target: str | None = None, progress: Progress | None = None
) -> tuple[list[Explained], dict[str, str]]:
    """Explain the predictions of a run for molecules. The second result gives the reasons why some could not be read."""
    if not predictor.recipe.data.reads_smiles:
        raise ValueError(
            f"this run was trained on {predictor.recipe.data.name}, not on molecules; use reign.explain.explain(reign.load(RUN), graph) from Python."
        )
    if predictor.recipe.data.has_descriptors:
        raise ValueError("this run uses descriptors of molecules besides their graphs, which cannot be explained atom by atom.")
    found, errors = [], {}
    for text in texts if progress is None else progress(texts, "explain"):
        try:
            molecule = Molecule.read(text, stereo=predictor.recipe.data.stereo_of_graphs)
        except ValueError as error:
            errors[text] = str(error)
            continue
        found.append(Explained(molecule.text, molecule, explain(predictor, molecule.graph(), target)))
    return found, errors


def smiles_of_file(path: Path, columns: Sequence[str]) -> list[str]:
    """The SMILES of a table. Several columns form one molecule of several components."""
    table, _ = read_table(path)
    need_columns(table.columns, columns, path)
    return [".".join(str(value).strip() for value in row) for row in table[list(columns)].itertuples(index=False, name=None)]
