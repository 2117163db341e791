"""Follows the pages of the tutorial as a reader does: writes their files, and runs their commands.

A block `python title="hello.py"` is added to that file. In a block `console`, a line after `$` is a command, and its output
follows. There `…` stands for any text. A block `sh` has commands that need servers or a cluster.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
START: Final = ROOT / "docs" / "start"


class Block(NamedTuple):
    """A block of code of a page."""

    language: str
    title: str
    text: str


class Step(NamedTuple):
    """A command of a block `console`, and the output that the page shows."""

    command: str
    output: str


def blocks(page: Path) -> list[Block]:
    found = re.findall(r'(?ms)^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', page.read_text())
    return [Block(*each) for each in found]


def steps(block: Block) -> Iterator[Step]:
    """Yield the commands of a block."""
    for part in re.split(r"(?m)^\$ ", block.text)[1:]:
        command, _, output = part.replace("\\\n> ", "").partition("\n")
        yield Step(command.partition("  # ")[0].strip(), output)


def follow(page: Path, folder: Path) -> list[str]:
    """Write the files of a page and run its commands, in order. Return the outputs of the commands.

    The first block of a file on a page begins it, and the others are added to it.
    """
    begun: set[str] = set()
    printed: list[str] = []
    for block in blocks(page):
        if block.title:
            with (folder / block.title).open("a" if block.title in begun else "w") as file:
                file.write(block.text)
            begun.add(block.title)
        elif block.language == "console":
            for step in steps(block):
                printed.append(run(step.command, folder))
                assert_printed(step.output, printed[-1], step.command)
    return printed


def environment(folder: Path) -> dict[str, str]:
    """Return variables with which `kstorm`, `python` and `pytest` are those of the tests."""
    programs = folder / ".programs"
    programs.mkdir(exist_ok=True)
    for name, words in {"kstorm": "-m kstorm", "pytest": "-m pytest", "python": ""}.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        program.chmod(0o755)
    paths = [str(folder), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(paths),
        "KSTORM_HOME": str(folder),
        "NO_COLOR": "1",
    }


def run(command: str, folder: Path, variables: Mapping[str, str] | None = None) -> str:
    """Run a command in a shell and return what it prints. A failure shows the output."""
    shell = shutil.which("bash") or "/bin/sh"
    done = subprocess.run(
        [shell, "-c", command],
        cwd=folder,
        env=environment(folder) | dict(variables or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}"
    return done.stdout


def assert_printed(expected: str, printed: str, command: str = "") -> None:
    """Compare the output that a page shows with the real one."""
    assert is_printed(expected, printed), (
        f"{command} prints\n{printed}\nand the page shows\n{expected}"
    )


def is_printed(expected: str, printed: str) -> bool:
    """Return True if a page shows this output."""
    pattern = ".*".join(map(re.escape, expected.strip().split("…")))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None
