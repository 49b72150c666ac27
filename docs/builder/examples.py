"""Pages of the programs and notebooks in examples/: programs as they are, notebooks with the outputs that are kept in them."""

import ast
import json
import re
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"


def example_pages() -> dict[str, str]:
    """The pages by file, and the pictures on them."""
    pages: dict[str, str] = {}
    for file in sorted(EXAMPLES.glob("*.py")):
        text = file.read_text()
        words = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]
        pages[f"examples/{file.stem}.md"] = f"# {file.name}\n\n{words}\n\n```{{code-block}} python\n{text}```\n"
    for file in sorted(EXAMPLES.glob("*.ipynb")):
        name = f"notebook-{file.stem}"
        text, pictures = notebook_page(json.loads(file.read_text()), name)
        pages[f"examples/{name}.md"] = text
        pages |= {f"examples/{picture}": svg for picture, svg in pictures.items()}
    return pages


def notebook_page(notebook: dict[str, Any], name: str) -> tuple[str, dict[str, str]]:
    """A notebook as Markdown, and the pictures among its outputs."""
    parts, pictures = [], {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(re.sub(r"\]\((\w+)\.ipynb\)", r"](notebook-\1.md)", source))
            continue
        parts.append(f"```{{code-block}} python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/svg+xml" in data:
                picture = f"{name}-{len(pictures)}.svg"
                pictures[picture] = "".join(data["image/svg+xml"])
                parts.append(f"![Output]({picture})")
            elif "text/latex" in data:
                parts.append("".join(data["text/latex"]))
            else:
                text = "".join(output.get("text", data.get("text/plain", "")))
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n", pictures
