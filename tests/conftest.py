"""Shapes and types in the signatures of reign are checked while its tests run."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from jaxtyping import install_import_hook

# all modules, private ones too, but for the command line, whose signatures are typer's, and for kernels, which Triton reads as text
SOURCE = Path(__file__).parents[1] / "src" / "reign"
PARTS = [p.stem for p in SOURCE.iterdir() if not p.stem.startswith("__") and p.stem not in ("cli", "kernels")]
PARTS += [f"kernels.{p.stem}" for p in (SOURCE / "kernels").iterdir() if not p.stem.startswith("__") and p.stem != "fused"]
if "REIGN_ATTACK" not in os.environ:  # the large attack is to meet reign as users do
    install_import_hook([f"reign.{part}" for part in PARTS], "beartype.beartype")
torch.set_num_threads(1)  # the tests run in several processes
settings.register_profile("reign", deadline=None, print_blob=True)
settings.load_profile("reign")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data, or a skip."""
    folder = os.environ.get("REIGN_DATA")
    if not folder:
        pytest.skip("REIGN_DATA is not set: no real data on this machine")
    return Path(folder)
