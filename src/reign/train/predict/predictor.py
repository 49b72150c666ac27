"""Predict with finished runs, and evaluate them again."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import torch
from torch_geometric.data import Data

from reign._validate import check
from reign.data import GraphPack
from reign.train.engine.callbacks import Callback
from reign.train.predict.ensemble import ForecastPlan, TrainedEnsemble, make_plan, without_targets
from reign.train.predict.evaluate import Evaluation, evaluate_split, evaluate_table
from reign.train.predict.nearest import WARNING, Domain, find_domain, training_molecules
from reign.train.predict.output import Fingerprint, Written, fingerprint, write_stream
from reign.train.predict.tables import CHUNK, ForecastJob, Stream, column_names, open_stream
from reign.train.settings.config import DataConfig

if TYPE_CHECKING:
    import pandas as pd


class FileOptions(TypedDict, total=False):
    """The options of ``Predictor.predict_file``, which describes them."""

    uncertainty: str | bool
    calibration: str | None
    alpha: float
    nearest: int | None
    warnings: bool
    descriptors_path: str | Path | None
    num_workers: int | None


class StreamOptions(FileOptions, total=False):
    """The options of ``Predictor.stream``: ``FileOptions``, the columns of SMILES, and the number of rows that are computed together."""

    smiles_columns: Sequence[str] | None
    chunk_rows: int


class Predictor(TrainedEnsemble):
    """All models of one or several runs. The mean over models is the prediction.

    ``reign.train.predict.ensemble.methods_of`` lists the possible methods of uncertainty. A single run is calibrated on its validation
    rows; several runs together are not calibrated.

    Args:
        folders: the folders of the runs, or zips made by ``reign export``.
        device: where to compute.
        best: whether to use only the model with the best validation metric of each run.
    """

    def predict(
        self,
        inputs: Iterable[Any],
        callback: Callback | None = None,
        *,
        uncertainty: str | bool = True,
        calibration: str | None = None,
        alpha: float = 0.1,
        warnings: bool = True,
    ) -> "pd.DataFrame":
        """A table with a row for each input: ``<target>_pred``, ``<target>_unc`` and intervals where the models give them, ``warning`` and ``error``.

        Args:
            inputs: SMILES, or PyG graphs with the features of the training data.
            callback: receives progress events.
            uncertainty, calibration, alpha, warnings: as in ``predict_file``.
        """
        inputs = [inputs] if isinstance(inputs, str | Data) else list(inputs)
        graphs, errors, texts = read_inputs(inputs, self.recipe.data)
        table = self.table(graphs, errors, callback, make_plan(self, uncertainty, calibration, alpha, warnings), texts)
        if texts is not None:
            table.insert(0, "smiles", texts)
        return table

    def predict_file(
        self,
        path: str | Path,
        smiles_columns: Sequence[str] | None = None,
        *,
        callback: Callback | None = None,
        **options: Unpack[FileOptions],
    ) -> "pd.DataFrame":
        """Predict for a table of molecules. The result has all its rows and columns in order, and the columns of ``predict``.

        Args:
            path: a table of molecules: CSV, which may be compressed, or Parquet.
            smiles_columns: columns of SMILES; those of the training if not given.
            uncertainty: "ensemble", "dropout" or "mve"; True for "mve" or "ensemble" if possible; False for none.
            calibration: "temperature" or "isotonic" for classes, "none" for no calibration. If not given, probabilities are not
                calibrated, and numbers have calibrated deviations and intervals if the run has enough validation rows.
            alpha: the share of rows that may lie outside their interval.
            nearest: number of the most similar training molecules to add, see ``reign.train.predict.nearest``.
            warnings: whether to add a column ``warning`` that marks molecules and predictions beyond the training data, see ``reign.train.predict.nearest``.
            descriptors_path: a table of descriptors for this table, if the training had one.
            num_workers: number of processes that read SMILES; 0 for none, None for a number that suits the table and the machine.
            callback: receives progress events.
        """
        stream, _ = self.stream(path, smiles_columns, callback=callback, **options)
        return stream.frame(callback or Callback())

    def write_predictions(
        self, path: str | Path, output: str | Path, *, callback: Callback | None = None, **options: Unpack[StreamOptions]
    ) -> Written:
        """Predict for a table of molecules of any size, and write the result of ``predict_file`` to a file, chunk by chunk.

        The output appears when it is complete. If the process is stopped, the same call continues where complete chunks end, and gives the same
        file. ``reign.train.predict.output`` describes how.

        Args:
            path: a table of molecules: CSV, which may be compressed, or Parquet.
            output: the file to write. Its name determines the format: .csv, .tsv, .csv.gz, .csv.bz2, .csv.xz or .parquet.
            callback: receives progress events.
            options: further arguments of ``stream``.
        """
        stream, about = self.stream(path, callback=callback, **options)
        return write_stream(stream, Path(output), about, callback or Callback())

    def stream(
        self,
        path: str | Path,
        smiles_columns: Sequence[str] | None = None,
        *,
        uncertainty: str | bool = True,
        calibration: str | None = None,
        alpha: float = 0.1,
        nearest: int | None = None,
        warnings: bool = True,
        descriptors_path: str | Path | None = None,
        num_workers: int | None = 0,
        chunk_rows: int = CHUNK,
        callback: Callback | None = None,
    ) -> tuple[Stream, Callable[[], Fingerprint]]:
        """A table whose predictions are computed in chunks, and a function that returns what they depend on.

        Args:
            path, smiles_columns, uncertainty, calibration, alpha, nearest, warnings, descriptors_path, num_workers, callback: as in ``predict_file``.
            chunk_rows: number of rows that are computed and written together.
        """
        self.need_smiles("use reign.load(...).predict(graphs) from Python.")
        plan = make_plan(self, uncertainty, calibration, alpha, warnings)
        check("nearest", nearest, nearest is None or nearest >= 1, "at least 1")
        job = ForecastJob(self, plan, nearest)
        job.num_workers = num_workers
        stream = open_stream(self.recipe.data, job, path, smiles_columns, descriptors_path, num_workers, chunk_rows)
        if warnings:  # after all checks, because it takes a while for an old run
            job.domain = self._known_domain(callback or Callback())
        if nearest is not None:
            job.trained_on = training_molecules(self, callback or Callback())
        return stream, lambda: fingerprint(self, stream, {"plan": repr(plan), "nearest": nearest})

    def table(
        self,
        graphs: Sequence[Data | None],
        errors: dict[int, str],
        callback: Callback | None = None,
        plan: ForecastPlan | None = None,
        texts: Sequence[str] | None = None,
    ) -> "pd.DataFrame":
        """Predictions for graphs, in their order, or for molecules with these SMILES. A graph that is None, or that cannot be predicted, has an error in
        place of values."""
        import pandas as pd

        plan = plan or make_plan(self, True, None, 0.1)
        errors = dict(errors)
        good = [i for i, data in enumerate(graphs) if data is not None]
        columns: dict[str, list[Any]] = {
            name: [] for name in column_names(self.targets, self.classes, plan.method is not None, list(plan.intervals))
        }
        if good:
            pack = GraphPack.of([without_targets(data, self.recipe.data) for data in graphs if data is not None])
            job = ForecastJob(self, plan)
            job.domain = self._known_domain(callback or Callback()) if plan.warnings else None
            smiles = None if texts is None else [(texts[i],) for i in good]
            columns, failed = job.forecasts(pack, smiles, callback or Callback())
            errors |= {good[g]: reason for g, reason in failed.items()}
            good = [i for i in good if i not in errors]
        if plan.warnings:
            columns.setdefault(WARNING, [])
        table = pd.DataFrame(index=range(len(graphs)))
        for name, values in columns.items():
            words = name == WARNING or (values and isinstance(values[0], str))
            column = pd.Series(["" if name == WARNING else None] * len(graphs), dtype=object if words else float)
            column[good] = values
            table[name] = column
        table["error"] = [errors.get(i, "") for i in range(len(graphs))]
        return table

    @cached_property
    def domain(self) -> Domain:
        """What the training molecules of the runs have in common."""
        return find_domain(self, Callback())

    def _known_domain(self, callback: Callback) -> Domain:
        """The domain; where it must be computed first, with progress."""
        if "domain" not in vars(self):
            self.domain = find_domain(self, callback)
        return self.domain

    def evaluate(
        self,
        split: str = "test",
        callback: Callback | None = None,
        metrics: Sequence[str] | None = None,
        *,
        uncertainty: str | bool = True,
        alpha: float = 0.1,
    ) -> Evaluation:
        """The metrics of every model, and of their mean, on a split of the data of the run, all computed anew.

        Args:
            split: "train", "val" or "test".
            callback: receives progress events.
            metrics: names of metrics, the main one first; those of the training if not given.
            uncertainty, alpha: as in ``predict_file``. The key "uncertainty" of the result holds the quality of uncertainties by target.
        """
        return evaluate_split(self, split, metrics, make_plan(self, uncertainty, None, alpha), callback or Callback())

    def evaluate_file(
        self,
        path: str | Path,
        callback: Callback | None = None,
        metrics: Sequence[str] | None = None,
        *,
        uncertainty: str | bool = True,
        alpha: float = 0.1,
        descriptors_path: str | Path | None = None,
    ) -> Evaluation:
        """As ``evaluate``, on all rows of a table of molecules with the columns of the training data.

        The result also has ``left_out``: the rows that could not be used, counted from 1, with the reasons.
        """
        plan = make_plan(self, uncertainty, None, alpha)
        return evaluate_table(self, path, metrics, plan, callback or Callback(), descriptors_path)


def load(*folders: str | Path, device: str | torch.device = "cpu", best: bool = False) -> Predictor:
    """Load one or several finished runs: ``reign.load("run").predict(["CCO", "c1ccccc1"])``."""
    if not folders:
        raise ValueError("no run was given, expected a folder made by reign train, or a zip made by reign export.")
    return Predictor(*folders, device=device, best=best)


def read_inputs(inputs: list[Any], trained_on: DataConfig) -> tuple[list[Data | None], dict[int, str], list[str] | None]:
    """The graphs (None where a SMILES cannot be read), the reasons for these, and the texts if the inputs are SMILES."""
    texts = [each for each in inputs if isinstance(each, str)]
    if not texts:
        if wrong := next(((i, each) for i, each in enumerate(inputs) if not isinstance(each, Data)), None):
            raise ValueError(f"input {wrong[0]} is of type {type(wrong[1]).__name__}, expected SMILES or PyG graphs.")
        return inputs, {}, None
    if len(texts) != len(inputs):
        raise ValueError(
            f"got {len(texts)} SMILES and {len(inputs) - len(texts)} other inputs, expected only SMILES or only PyG graphs."
        )
    if not trained_on.reads_smiles:
        raise ValueError(f"this run was trained on {trained_on.name}, not on SMILES; give it PyG graphs of the same kind.")
    if trained_on.descriptors_path is not None:
        raise ValueError("the model needs a table of descriptors; use predict_file with descriptors_path.")
    from reign.data.molecules import graphs_of, read_many

    molecules, wrong_texts = read_many(texts, trained_on.stereo_of_graphs)
    graphs, wrong_texts = graphs_of(molecules, wrong_texts)
    graphs, wrong_texts = trained_on.descriptors().extend(graphs, molecules, wrong_texts)
    return graphs, wrong_texts, texts
