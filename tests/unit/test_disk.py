"""Files that are complete or absent."""

import os
from pathlib import Path

import pytest
import torch

from reign import disk


def test_a_file_is_replaced_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the new content is complete and on the disk, the old file is there; then a rename takes its place."""
    file = tmp_path / "deep" / "file.txt"
    disk.write_text(file, "old")
    seen = []
    original = os.fsync

    def look(number: int) -> None:
        original(number)
        unfinished = [path for path in file.parent.iterdir() if path != file]
        seen.append(
            (file.read_text(), [path.read_text() for path in unfinished], [disk.is_unfinished(path) for path in unfinished])
        )

    monkeypatch.setattr(os, "fsync", look)
    disk.write_text(file, "new and longer")
    assert seen == [("old", ["new and longer"], [True])]
    assert file.read_text() == "new and longer"
    assert list(file.parent.iterdir()) == [file]


def test_what_cannot_be_written_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file.txt"
    disk.write_text(file, "old")

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="file.txt cannot be written \\(No space left on device\\)"):
        disk.write_text(file, "new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_only_unfinished_files_are_removed(tmp_path: Path) -> None:
    ours = tmp_path / "in" / ".a.csv.0123456789abcdef.reign-unfinished"
    theirs = [tmp_path / name for name in (".a.csv.reign-unfinished", ".hidden", "a.0123456789abcdef.reign-unfinished")]
    ours.parent.mkdir()
    for file in (ours, *theirs):
        file.touch()
    disk.remove_unfinished(tmp_path)
    assert not ours.exists()
    assert all(file.exists() for file in theirs)


def test_cells_of_tables(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    disk.write_csv(file, ["a", "b"], [[1, None], ['say "x"', "1,2"], ["two\nlines", "a\rb"]])
    assert file.read_bytes() == b'a,b\n1,\n"say ""x""","1,2"\n"two\nlines","a\rb"\n'


def test_tensors_and_states(tmp_path: Path) -> None:
    tensors = {"x": torch.arange(6.0).view(2, 3).t(), "n": torch.tensor([1, 2])}
    disk.write_tensors(tmp_path / "t.safetensors", tensors, {"about": "them"})
    found, about = disk.read_tensors(tmp_path / "t.safetensors")
    assert about == {"about": "them"}
    assert all(torch.equal(found[name], value) for name, value in tensors.items())
    written = set()
    for _ in range(20):  # the library alone would write several items of metadata in a random order
        disk.write_tensors(tmp_path / "many.safetensors", tensors, {"a": "é", "b": "2", "c": "3"})
        written.add((tmp_path / "many.safetensors").read_bytes())
    assert len(written) == 1
    assert disk.read_tensors(tmp_path / "many.safetensors")[1] == {"a": "é", "b": "2", "c": "3"}
    disk.write_state(tmp_path / "s.pt", {"rows": [1, 2], "x": tensors["x"]})
    state = disk.read_state(tmp_path / "s.pt")
    assert state["rows"] == [1, 2]
    assert torch.equal(state["x"], tensors["x"])
    (tmp_path / "t.safetensors").write_bytes(b"nothing")
    for read, name in ((disk.read_tensors, "t.safetensors"), (disk.read_state, "t.safetensors"), (disk.read_json, "t.safetensors")):
        with pytest.raises(ValueError, match="t.safetensors is damaged"):
            read(tmp_path / name)


def test_a_state_with_objects_is_refused_without_torchs_advice(tmp_path: Path) -> None:
    """Torch's own message says how to load the file unsafely."""
    torch.save({"model": Path("x")}, tmp_path / "s.pt")
    with pytest.raises(
        ValueError,
        match="s.pt is damaged .it holds something other than tensors and plain values, which is not loaded, because it could run code.; delete",
    ) as refused:
        disk.read_state(tmp_path / "s.pt")
    assert "weights_only" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "it holds list, expected size, name"),
        ('{"size": 1}', "it has no name"),
        ('{"size": true, "name": "a"}', "size is True"),
        ('{"size": NaN, "name": "a"}', "size is nan"),
        ('{"size": 1, "name": 2}', "name is 2"),
    ],
)
def test_records(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "r.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=message):
        disk.read_record(file, size=float, name=str)
    file.write_text('{"size": 1, "name": "a", "more": []}')
    assert disk.read_record(file, size=float, name=str)["size"] == 1
