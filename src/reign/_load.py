"""``reign.load``: load a run or a model in Python. Packages are imported only when it is called."""

from pathlib import Path
from typing import Any


def load(*folders: str | Path, device: Any = "cpu", best: bool = False) -> Any:
    """Load a finished run, or several runs as one ensemble: ``reign.load("run").predict(["CCO", "c1ccccc1"])``.

    A folder that ``model.save_pretrained`` wrote, such as ``best`` in a run, is loaded as a ``reign.nn.Model`` in evaluation mode.

    Args:
        folders: the folders of runs, or one folder of a model.
        device: where to compute.
        best: for runs, whether to use only the model with the best validation metric of each run.
    """
    if len(folders) == 1 and _holds_a_model(Path(folders[0])):
        from reign.nn import Model

        return Model.from_pretrained(folders[0]).to(device)
    from reign.train.predict.predictor import load as read

    return read(*folders, device=device, best=best)


def _holds_a_model(folder: Path) -> bool:
    return all((folder / name).is_file() for name in ("config.json", "model.safetensors"))
