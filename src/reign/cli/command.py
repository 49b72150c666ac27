"""The class of all commands. It decides how often an option can be given, and how many values it takes."""

from collections import Counter
from typing import Any

from typer.core import TyperCommand, TyperOption

from reign.cli.tools import fail


class Command(TyperCommand):
    """A command whose options take several values in a row, as in chemprop (``--split-sizes 0.8 0.1 0.1``), or one value once.

    An option that can be repeated takes all words up to the next option. If a command also has an argument, such as the recipe of ``reign train``, such an
    option takes only numbers, unless a table is given with -i.

    An option of one value that is given twice is refused, because one of the values would be ignored. A flag may be repeated, but not together with
    its opposite.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Check that options of one value are given once, and parse the words."""
        words = self._repeated(args)
        if not ctx.resilient_parsing:  # a shell that completes an unfinished line has nothing to refuse
            _, _, order = self.make_parser(ctx).parse_args(list(words))
            for option, times in Counter(order).items():
                if not isinstance(option, TyperOption) or option.multiple or option.count:
                    continue
                names = "/".join([*option.opts, *option.secondary_opts])
                if not option.is_flag and times > 1:
                    fail(f"{names} is given {times} times, but takes one value; give it once.")
                if option.is_flag and all(set(words) & set(forms) for forms in (option.opts, option.secondary_opts)):
                    fail(f"{names} is given in both forms; give one of them.")
        return super().parse_args(ctx, words)

    def _repeated(self, args: list[str]) -> list[str]:
        """The words, with the name of a repeated option before each of its values."""
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
        return out


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
