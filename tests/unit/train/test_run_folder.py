"""What a run notes about itself."""

import shutil
import subprocess
from pathlib import Path

import pytest

from reign.train.runs import run


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@b.c")
    return subprocess.run(["git", "-C", folder, *who, *words], capture_output=True, text=True, check=True).stdout.strip()


def commit_of(folder: Path) -> str | None:
    """The commit as a new process finds it."""
    run.commit_of.cache_clear()
    return run.commit_of(folder)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_commit_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert commit_of(tmp_path) is None  # not a checkout
    git(tmp_path, "init", "-q")
    assert commit_of(tmp_path) is None  # without a commit
    (tmp_path / "a.txt").write_text("one")
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "-q", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    (tmp_path / "b.txt").write_text("not tracked")
    assert commit_of(tmp_path) == commit
    (tmp_path / "a.txt").write_text("two")
    assert commit_of(tmp_path) == f"{commit}+changes"
    monkeypatch.setenv("PATH", "")
    assert commit_of(tmp_path) is None  # without git
