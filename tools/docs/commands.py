"""The page of the command `kstorm`."""

import argparse
import importlib
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any
from unittest import mock

import typer

from kstorm.__main__ import GROUPS, Command
from kstorm.cli.__main__ import app
from tools.docs.tables import code, page, table


def commands_page() -> str:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    parts = []
    for group, members in GROUPS.items():
        parts.append(f"## Commands {group}" if group.startswith("on ") else f"## {group.title()}")
        for member in members:
            if member.name in commands:
                found = _typer(member.name, commands[member.name])
            else:
                found = _argparse(member.name, _parser_of(member))
            extra = f"`kstorm[{member.extra}]`" if member.extra else "`kstorm` without extras"
            heading, *others = found
            parts += [heading, f"{member.about} The command needs {extra}.", *others]
    return page(
        "The command `kstorm`",
        "`kstorm --help` lists the commands, and `kstorm COMMAND --help` explains one of them. "
        "Each command ends with one of these [exit codes](../guides/control.md#exit-codes).",
        *parts,
    )


def _typer(name: str, command: Any) -> Iterator[str]:
    """Yield the heading of a command and its parts, or those of its group."""
    children = getattr(command, "commands", None)
    level = "###" if " " not in name else "####"
    yield f"{level} kstorm {name}"
    if children:
        for child in children.values():
            if not child.hidden:
                yield from _typer(f"{name} {child.name}", child)
        return
    yield from _about(command.help or "", " " in name)
    rows = [
        (_words(each), _meaning(each))
        for each in command.params
        if not getattr(each, "hidden", False) and each.name != "help"
    ]
    if rows:
        yield table(["argument or option", "meaning"], rows)


def _about(text: str, whole: bool) -> Iterator[str]:
    """Yield the paragraphs of a help text. The first one of a command is also in the list of commands."""
    paragraphs = re.split(r"\n\s*\n", text)
    yield from (" ".join(each.split()) for each in paragraphs[0 if whole else 1 :] if each.strip())


def _words(each: Any) -> str:
    if type(each).__name__.endswith("Argument"):
        return code((each.metavar or each.name or "").upper())
    names = ", ".join(map(code, [*each.opts, *each.secondary_opts]))
    return names if each.is_flag or not each.metavar else f"{names} {each.metavar}"


def _meaning(each: Any) -> str:
    default = each.default.value if isinstance(each.default, Enum) else each.default
    parts = [getattr(each, "help", None) or ""]
    if default not in (None, False, True, "", (), []) and not callable(default):
        parts.append(f"Default: {code(str(default))}.")
    if each.envvar:
        parts.append(f"Variable: {code(str(each.envvar))}.")
    return " ".join(filter(None, parts))


class _ParserFound(BaseException):
    """Carries a parser out of the command that has made it."""


def _parser_of(command: Command) -> argparse.ArgumentParser:
    """Return the parser with which a command reads its arguments."""

    def stop(parser: argparse.ArgumentParser, *_: object) -> None:
        raise _ParserFound(parser)

    with mock.patch.object(argparse.ArgumentParser, "parse_args", stop):
        try:
            importlib.import_module(command.module).main(["--help"])
        except _ParserFound as found:
            (parser,) = found.args
            assert isinstance(parser, argparse.ArgumentParser)
            return parser
    raise AssertionError(f"kstorm {command.name} reads no arguments")


def _argparse(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"### kstorm {name}"
    rows = []
    for action in parser._actions:
        if action.help in (None, argparse.SUPPRESS) or action.dest == "help":
            continue
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        shown = metavar or ("|".join(map(str, action.choices)) if action.choices else "")
        if action.option_strings:
            words = ", ".join(map(code, action.option_strings))
            words = words if action.nargs == 0 else f"{words} {shown or action.dest.upper()}"
        else:
            words = code(shown or action.dest.upper())
        help_text = (action.help or "") % {**vars(action), "prog": parser.prog}
        choices = re.match(r"\w+:", help_text)
        rows.append((words, help_text if choices else help_text[:1].upper() + help_text[1:]))
    yield table(["argument or option", "meaning"], rows)
