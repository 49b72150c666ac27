"""Small wrong changes to the source, and the tests that must notice them; ``make mutate`` tries all of them.

Each YAML file beside this one is about a folder of ``src/reign``, and lists mutants:

    - what: the wrong change, in words
      file: the file below src/reign
      old: text that stands in the file exactly once
      new: what it becomes
      fails: a test that must fail, as tests/unit/nn/test_pooling.py::test_name, or a list of such tests
"""

import ast
from dataclasses import dataclass
from pathlib import Path

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FIELDS = {"what", "file", "old", "new", "fails"}


@dataclass(frozen=True)
class Mutant:
    """A wrong change to one file, and the tests that must fail because of it."""

    group: str
    what: str
    file: str
    old: str
    new: str
    fails: tuple[str, ...]

    def apply(self, root: Path) -> str:
        """The text of the file with the change; ``ValueError`` if the old text does not stand there exactly once."""
        text = (root / "src" / "reign" / self.file).read_text()
        if (found := text.count(self.old)) != 1:
            raise ValueError(f"{self.group}: {self.what}: {self.old!r} stands {found} times in {self.file}, expected once.")
        return text.replace(self.old, self.new)


def read_mutants(folder: Path = HERE) -> list[Mutant]:
    """All mutants of all files."""
    found = []
    for file in sorted(folder.glob("*.yaml")):
        for entry in yaml.safe_load(file.read_text()):
            if set(entry) != FIELDS:
                raise ValueError(f"{file.name}: a mutant has {sorted(entry)}, expected {sorted(FIELDS)}.")
            fails = [entry["fails"]] if isinstance(entry["fails"], str) else entry["fails"]
            found.append(Mutant(file.stem, entry["what"], entry["file"], entry["old"], entry["new"], tuple(fails)))
    return found


def is_test(test: str, root: Path = ROOT) -> bool:
    """Whether there is a test of this id; what stands in brackets is not looked at."""
    file, _, name = test.partition("::")
    if not (root / file).is_file():
        return False
    functions = [node.name for node in ast.walk(ast.parse((root / file).read_text())) if isinstance(node, ast.FunctionDef)]
    return name.partition("[")[0] in functions
