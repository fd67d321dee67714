"""Parts of pages that come from the code: what stands between ``<!-- generated: ... -->`` and ``<!-- end -->``.

``fill`` writes them anew; a page says what it wants as ``NAME`` or ``NAME ARGUMENT``, the keys of ``BLOCKS``.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from typing import get_args, get_type_hints

_BLOCK = re.compile(r"(<!-- generated: ([\w -]+?)(?: ([\w.]+))? -->\n).*?(?=<!-- end -->)", re.DOTALL)


def fill(text: str) -> str:
    """A page with its blocks as the code has them now. KeyError for a block that there is not."""
    return _BLOCK.sub(lambda found: f"{found[1]}\n{BLOCKS[found[2]](*filter(None, [found[3]]))}\n\n", text)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    from experiments.results.markdown import markdown

    return markdown([[cell.replace("|", r"\|") for cell in row] for row in (header, *rows)])


def columns() -> str:
    """The columns of ``rows.parquet``."""
    from experiments.results.row_schema import COLUMNS

    kinds = {"string": "text", "int64": "integer", "double": "number"}
    kinds |= {f"list<element: {kind}>": f"list of {name}s" for kind, name in kinds.items()}
    rows = [[f"`{c.name}`", kinds[str(c.dtype).replace("item", "element")], c.unit, c.meaning] for c in COLUMNS]
    return table(["Column", "Type", "Unit", "Meaning"], rows)


def infos_table() -> str:
    """The entries of an info, from the annotations of its class."""
    from envs import Info

    rows = []
    for key, hint in get_type_hints(Info, include_extras=True).items():
        kind, meaning = get_args(hint)
        rows.append([f"`{key}`", f"`{inspect.formatannotation(kind).replace('numpy.', 'np.')}`", meaning])
    return table(["Key", "Type", "Meaning"], rows).replace("``", "`")


def equations() -> str:
    """The indented lines of the energy model's docstring."""
    from envs import energy

    lines = [line.strip() for line in inspect.getdoc(energy).splitlines() if line.startswith("    ")]
    return "\n".join(["```text", *lines, "```"])


_UNITS = {"hz": "Hz", "w": "W", "half_capacitance": "J s² per cycle", "cycles_per_bit": "cycles per bit"}


def quantities() -> str:
    """The arguments of ``energy.round_energy_j`` with their units and the paper's values."""
    from envs import energy

    signature = inspect.signature(energy.round_energy_j)
    meanings = dict(re.findall(r"^    (\w+): (.*)$", inspect.getdoc(energy.round_energy_j), re.MULTILINE))
    rows = []
    for name, parameter in signature.parameters.items():
        unit = _UNITS.get(name) or _UNITS.get(name.rpartition("_")[2], "")
        default = "" if parameter.default is parameter.empty else f"{parameter.default:g}"
        rows.append([f"`{name}`", meanings[name].removesuffix("."), unit, default])
    return table(["Argument", "What it is", "Unit", "Default"], rows)


def listing() -> str:
    """The commands by their short names."""
    from experiments.commands import listing as commands

    return f"```text\n{commands()}\n```"


def options(module: str) -> str:
    """What the ``parser()`` of a module understands, sub-commands among it."""
    return "\n\n".join(_options(importlib.import_module(module).parser()))


_SHOWN_OTHERWISE = (argparse._HelpAction, argparse._SubParsersAction)


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    if parser.description:
        yield " ".join(parser.description.split())
    for group in parser._action_groups:
        actions = [a for a in group._group_actions if not isinstance(a, _SHOWN_OTHERWISE)]
        if actions:
            named = group.title not in ("options", "optional arguments", "positional arguments")
            header = f"{group.title[0].upper()}{group.title[1:]}" if named else "Option"
            yield table([header, ""], [[f"`{_usage(a)}`", _help(parser, a)] for a in actions])
    if parser.epilog:
        yield f"```text\n{parser.epilog.strip()}\n```"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield f"### {command.prog}"
                yield from _options(command)


def _usage(action: argparse.Action) -> str:
    """As ``--flag VALUE ...``."""
    value = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
    more = " ..." if action.nargs in ("+", "*") else ""
    return " ".join([*action.option_strings, value]).strip() + more


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return parser._get_formatter()._expand_help(action) if action.help else ""


BLOCKS = {"columns": columns, "equations": equations, "quantities": quantities, "listing": listing, "options": options}
