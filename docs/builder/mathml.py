r"""Formulas as MathML, which browsers draw by themselves: a page loads no script for them, and nothing from outside.

>>> to_mathml("x^k_i").count("<math"), to_mathml(r"a &= b \\ c &= d", block=True).count("<mtr>")
(1, 2)
"""

import html
import re
from typing import Any

from latex2mathml.converter import convert

AROUND = re.compile(r"\\(begin|end)\{(aligned|split|align\*?|gathered)\}")
LESS_SPACE = (r"\textstyle", r"\displaystyle")


def to_mathml(latex: str, block: bool = False) -> str:
    """A formula as MathML; lines that end in a double backslash are rows of a table, and their parts between ampersands its cells."""
    text = AROUND.sub("", latex).strip()
    for word in LESS_SPACE:
        text = text.replace(word, "")
    rows = [row.strip() for row in re.split(r"\\\\", text) if row.strip()]
    if len(rows) == 1 and "&" not in rows[0]:
        return _convert(rows[0], block)
    cells = "".join("<mtr>" + "".join(f"<mtd>{_inner(cell)}</mtd>" for cell in row.split("&")) + "</mtr>" for row in rows)
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML" display="block" class="rows"><mtable>{cells}</mtable></math>'


def _inner(latex: str) -> str:
    """What stands inside of the element ``math``."""
    made = _convert(latex.strip() or "{}", True)
    return made[made.index(">") + 1 : made.rindex("</math>")]


def _convert(latex: str, block: bool) -> str:
    """A formula of one line; the sign for neighbours is a sign between two things."""
    return convert(latex, display="block" if block else "inline").replace("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")


def inline(self: Any, node: Any) -> None:
    """Write a formula in a line."""
    self.body.append(to_mathml(node.astext()))
    _skip()


def block(self: Any, node: Any) -> None:
    """Write a formula on lines of its own; what is wider than the page can be scrolled."""
    self.body.append(f'<div class="formula" title="{html.escape(node.astext())}">{to_mathml(node.astext(), block=True)}</div>')
    _skip()


def _skip() -> None:
    from docutils import nodes

    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
