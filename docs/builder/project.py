"""Pages about the project itself, which lie outside of docs/: how to contribute, what changed, what was measured, what was run."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = {  # files outside of docs/, and their pages
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changelog",
    "SECURITY.md": "security",
    "benchmarks/RESULTS.md": "measured",
    "benchmarks/LOG.md": "log",
    "results/README.md": "results",
    "results/records.md": "records",
}


def project_pages() -> dict[str, str]:
    """The pages by file."""
    pages = {f"project/{page}.md": _text(file) for file, page in PROJECT.items()}
    toc = "\n".join(PROJECT.values())
    pages["project/index.md"] = f"# The project\n\n```{{toctree}}\n:maxdepth: 1\n\n{toc}\n```\n"
    return pages


def _text(file: str) -> str:
    """The file with its links as they are from its page; what is no page of the site stays as text."""
    here = ROOT / file

    def lead(found: re.Match[str]) -> str:
        words, target = found.groups()
        path, _, anchor = target.partition("#")
        there = (here.parent / path).resolve()
        if re.match(r"[a-z]+:", target) or not path:
            return found.group(0)
        name = str(there.relative_to(ROOT)) if there.is_relative_to(ROOT) else ""
        end = f"#{anchor}" if anchor else ""
        if name in PROJECT:
            return f"[{words}]({PROJECT[name]}.md{end})"
        if name.startswith("docs/") and there.suffix == ".md":
            return f"[{words}](../../{name.removeprefix('docs/')}{end})"
        return words

    return re.sub(r"\[([^\]\n]+)\]\(([^)\s]+)\)", lead, here.read_text())


def within_the_site(text: str, name: str) -> str:
    """The text of a page of docs/ with links to files outside of docs/ led to their pages; those that have none are text."""
    if name.startswith("generated/"):
        return text
    up = "../" * name.count("/")
    for file, page in PROJECT.items():
        text = text.replace(f"](../{up}{file}", f"]({up}generated/project/{page}.md")
    return re.sub(rf"\[([^\]\n]+)\]\(\.\./{re.escape(up)}(?!generated/|howto/|\w+\.md)[^)\s]*\)", r"\1", text)
