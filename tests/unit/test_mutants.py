"""The mutants themselves: each still applies, and names tests that exist. ``make mutate`` shows that these tests notice it."""

import sys
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).parents[1] / "mutants"
sys.path.append(str(HERE))

from mutants import ROOT, Mutant, is_test, read_mutants  # noqa: E402

MUTANTS = read_mutants()


def test_there_are_mutants_of_every_folder() -> None:
    assert len(MUTANTS) >= 120
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)
    folders = {str(file.parent.relative_to(ROOT / "src" / "reign")) for file in (ROOT / "src" / "reign").rglob("*.py")}
    assert {str(Path(mutant.file).parent) for mutant in MUTANTS} == folders


@pytest.mark.parametrize("group", sorted({mutant.group for mutant in MUTANTS}))
def test_every_mutant_applies_and_names_tests(group: str) -> None:
    for mutant in MUTANTS:
        if mutant.group == group:
            assert mutant.apply(ROOT) != (ROOT / "src" / "reign" / mutant.file).read_text()
            assert mutant.fails
            for test in mutant.fails:
                assert is_test(test), f"{mutant.what}: there is no {test}"


def test_a_mutant_that_no_longer_applies_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "src" / "reign").mkdir(parents=True)
    (tmp_path / "src" / "reign" / "a.py").write_text("x = 1\ny = 1\n")
    assert Mutant("g", "w", "a.py", "x = 1", "x = 2", ()).apply(tmp_path) == "x = 2\ny = 1\n"
    for old, times in (("z = 1", 0), ("= 1", 2)):
        with pytest.raises(ValueError, match=f"stands {times} times in a.py, expected once"):
            Mutant("g", "w", "a.py", old, "", ()).apply(tmp_path)
    (tmp_path / "m.yaml").write_text(yaml.safe_dump([{"what": "w", "file": "a.py"}]))
    with pytest.raises(ValueError, match="a mutant has"):
        read_mutants(tmp_path)
    assert not is_test("tests/unit/test_mutants.py::test_of_nothing")
    assert not is_test("tests/unit/test_nothing.py::test_of_nothing")
    assert is_test("tests/unit/test_mutants.py::test_every_mutant_applies_and_names_tests[nn]")
