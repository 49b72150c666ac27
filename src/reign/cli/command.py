"""Commands whose options take several values in a row, as in chemprop: ``--split-sizes 0.8 0.1 0.1``."""

from typing import Any

from typer.core import TyperCommand


class ManyWords(TyperCommand):
    """An option that can be repeated takes all words up to the next option.

    If a command also has an argument, such as the recipe of ``reign train``, such an option takes only numbers, unless a table is given with -i.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the name of the option before every word."""
        several = {name for option in self.params if getattr(option, "multiple", False) for name in option.opts}
        own = any(option.param_type_name == "argument" for option in self.params)
        words_too = not own or any(arg in ("-i", "--data-path") or arg.startswith("--data-path=") for arg in args)
        out: list[str] = []
        name: str | None = None
        taken = 0
        for arg in args:
            if arg.startswith("-") and not _is_number(arg):
                name, taken = (arg if arg in several else None), 0
            elif name is not None:
                taken += 1
                if taken > 1 and (words_too or _is_number(arg)):
                    out.append(name)
                elif taken > 1:
                    name = None
            out.append(arg)
        return super().parse_args(ctx, out)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
