"""A small table, and a run that was trained on it; the tests copy both."""

import os
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from commands import MOLECULES, SMALL, works


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with mols.csv and the run trained on it; not to be changed."""
    folder = tmp_path_factory.mktemp("trained")
    frame = pd.DataFrame({"smiles": MOLECULES, "size": [len(text) / 3 for text in MOLECULES]})
    frame.to_csv(folder / "mols.csv", index=False)
    works("train", "-i", folder / "mols.csv", "--target-columns", "size", "-o", folder / "run", *SMALL)
    return folder


@pytest.fixture(autouse=True)
def _as_users_meet_it(signatures_unchecked: None) -> None:
    """Bad input meets reign's own messages, not those of the checks of signatures."""


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("REIGN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("REIGN_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    yield
    os.chdir("/")
