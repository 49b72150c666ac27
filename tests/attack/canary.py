"""Files of a stranger that run code if they are unpickled: the code makes a file, the canary."""

import io
import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import torch


class Bomb:
    """An object that makes a file when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return subprocess.getoutput, (f"touch '{self.canary}'",)


def bombs(canary: Path) -> dict[str, bytes]:
    """The same bomb in every wrapping that torch, numpy and pickle know."""
    bomb = Bomb(canary)
    state, arrays = io.BytesIO(), io.BytesIO()
    torch.save({"learner": bomb, "rows": bomb}, state)
    np.savez(arrays, y=np.array([bomb], dtype=object), num_nodes=np.array([bomb], dtype=object))
    yaml = f"!!python/object/apply:subprocess.getoutput [\"touch '{canary}'\"]\n"
    return {"pickle": pickle.dumps(bomb), "torch": state.getvalue(), "npz": arrays.getvalue(), "yaml": yaml.encode()}
