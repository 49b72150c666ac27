"""The package as a whole: public names, dependencies of the core, the command."""

import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import package
import reign

SOURCE = Path(__file__).parents[2] / "src"
EXTRAS = [
    "beartype", "hypothesis", "lightning", "matplotlib", "ogb", "optuna", "pandas", "pydantic", "rdkit", "rich", "sklearn",
    "torchmetrics", "typer", "yaml",
]  # fmt: skip
BLOCKED = "import sys; sys.modules.update(dict.fromkeys({blocked!r})); "


def python(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    path = {"PYTHONPATH": str(SOURCE)} if cwd is None else {}
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, env=os.environ | path, cwd=cwd)


def modules() -> list[str]:
    found = [name for _, name, _ in pkgutil.walk_packages(reign.__path__, "reign.")]
    return ["reign", *(name for name in found if name != "reign.__main__")]


@pytest.mark.parametrize("name", modules())
def test_all_names_exist_and_are_documented(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__ or name == "reign._version"
    public = getattr(module, "__all__", [])
    assert len(set(public)) == len(public)
    for entry in public:
        value = getattr(module, entry)
        assert (
            value.__doc__ or not inspect.isclass(value) or "jaxtyping" in repr(value)
        )  # aliases of types have no words of their own


def test_public_names_of_the_package() -> None:
    assert dir(reign) == reign.__all__
    for name in reign.__all__:
        assert getattr(reign, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'polices'"):
        _ = reign.polices
    assert {"nn", "policies", "testing", "transforms", "interop"} <= set(reign.__all__)


def test_core_needs_the_core_alone() -> None:
    done = python("-c", BLOCKED.format(blocked=EXTRAS) + "import reign; print(reign.policy('ego+:3'))")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ego+:3\n"


def test_command_from_source() -> None:
    done = python("-m", "reign", "--version", cwd=SOURCE)
    assert done.stdout == f"reign {reign.__version__}\n"
    done = python("-m", "reign", "policies", "--example", cwd=SOURCE)
    assert done.returncode == 0
    assert all(name in done.stdout for name in reign.list_policies())


def test_command_without_its_parts_says_what_to_install() -> None:
    done = python("-c", BLOCKED.format(blocked=["typer"]) + "import reign.__main__ as m; m.main()")
    assert (done.returncode, done.stderr) == (2, "The command line needs typer: pip install 'reign[train]'.\n")


def test_wrong_command_exits_with_2_and_no_traceback() -> None:
    done = python("-m", "reign", "polices")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "No such command 'polices'" in done.stderr


def release(version: str, tag: list[str], citation: str, changelog: str) -> list[str]:
    """Where a version is not the same: in its tag, the citation and the newest release of the changelog, whose dates agree."""
    cited = dict(re.findall(r"(?m)^(version|date-released): (.*)$", citation))
    newest = re.search(r"(?m)^## \[(\d.*)\] - (.*)$", changelog)
    out = [f"the tag is {each}" for each in tag if each.startswith("v") and each != f"v{version}"]
    out += [f"the citation has {cited}"] if cited.get("version") != version else []
    out += [f"the changelog has {newest}"] if newest is None or newest.groups() != (version, cited.get("date-released")) else []
    return out


def test_one_version_everywhere() -> None:
    root = SOURCE.parent
    tags = subprocess.run(["git", "tag", "--points-at", "HEAD"], cwd=root, capture_output=True, text=True).stdout.split()
    assert release(reign.__version__, tags, (root / "CITATION.cff").read_text(), (root / "CHANGELOG.md").read_text()) == []
    with (root / "pyproject.toml").open("rb") as file:
        settings = tomllib.load(file)
    assert "version" not in settings["project"]
    assert settings["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "reign._version.__version__"}


def test_two_versions_are_found() -> None:
    citation, changelog = (
        "version: 0.2.0\ndate-released: 2027-01-01\n",
        "## [Unreleased]\n## [0.2.0] - 2027-01-01\n## [0.1.0] - 2026-01-01\n",
    )
    assert release("0.2.0", ["v0.2.0", "mine"], citation, changelog) == []
    assert len(release("0.3.0", ["v0.2.0"], citation, changelog)) == 3
    assert len(release("0.2.0", [], citation, changelog.replace("2027-01-01", "2027-01-02"))) == 1


def test_a_release_is_one_screen_of_the_changelog() -> None:
    text = (SOURCE.parent / "CHANGELOG.md").read_text()
    assert len(text[text.index("## [0.1.0]") :].splitlines()) <= 50


def test_the_changelog_has_its_form() -> None:
    titles = re.findall(r"^(##+ .*)$", (SOURCE.parent / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert titles[0] == "## [Unreleased]"
    kinds = {"### Added", "### Changed", "### Deprecated", "### Removed", "### Fixed", "### Security"}
    for title in titles[1:]:
        assert title in kinds or re.fullmatch(r"## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", title), title


def test_the_workflow_the_makefile_and_the_package_agree() -> None:
    """Every step of the workflow is a target, or what a target does where there is no make; it tries the versions that the package names."""
    yaml = pytest.importorskip("yaml")
    root = SOURCE.parent
    makefile = (root / "Makefile").read_text()
    settings = tomllib.loads((root / "pyproject.toml").read_text())
    jobs = yaml.safe_load((root / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    systems = jobs.pop("systems")
    steps = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = {re.match(r"make (\w+)", step)[1] for step in steps}  # type: ignore[index]
    assert targets == {"setup", "lint", "test", "coverage", "docs", "package"}
    assert targets <= set(re.findall(r"(?m)^(\w+):", makefile))
    (lowest,) = [need.removeprefix("torch>=") for need in settings["project"]["dependencies"] if need.startswith("torch>=")]
    matrix = jobs["tests"]["strategy"]["matrix"]
    usual, tried = (re.search(rf"(?m)^{name} \?= (.+)$", makefile)[1] for name in ("TORCH", "TORCHES"))  # type: ignore[index]
    assert matrix["torch"] == tried.split()
    assert matrix["torch"][0] == f"{lowest}.0"
    assert usual in tried.split()
    named = [
        line.removeprefix("Programming Language :: Python :: ")
        for line in settings["project"]["classifiers"]
        if "Python ::" in line
    ]
    assert matrix["python"] == named
    assert systems["strategy"]["matrix"]["system"] == ["ubuntu-latest", "macos-latest", "windows-latest"]
    assert [step["run"] for step in systems["steps"] if "run" in step][-1] == "python -m pytest -q -n 2 tests/unit"
    assert settings["tool"]["coverage"]["report"]["fail_under"] == 92
    hooks = yaml.safe_load((root / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"]  # nothing is fetched from elsewhere


def test_what_is_wrong_with_a_wheel() -> None:
    good = [
        "reign/py.typed",
        "reign/explore/page/index.html",
        "reign/experiments/evidence.yaml",
        "reign/experiments/recipes/zinc.yaml",
        "reign/testing.py",
    ]
    assert package.faults([*good, "reign-0.1.0.dist-info/METADATA"], package.LARGEST) == []
    for wrong in ("tests/unit/test_x.py", "reign/test_x.py", "reign/tests/x.py", "reign/data/zinc12k.npz"):
        assert package.faults([*good, wrong], 1) == [f"{wrong} does not belong there"]
    assert package.faults(good[1:], 1) == ["reign/py.typed is missing"]
    assert len(package.faults(good, package.LARGEST + 1)) == 1


def test_a_python_that_does_not_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert package.can_run(sys.executable) == ""
    assert package.can_run("python3.99") == "is not on the PATH"
    monkeypatch.setattr(package, "GOOD", "raise SystemExit('too old')")
    assert package.can_run(sys.executable) == "is on the PATH, but does not run (['too old'])"
