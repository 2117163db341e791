"""Print results as JSON for programs."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Annotated

import msgspec
import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]


def print_json(found: object, *, pretty: bool = False) -> None:
    """Print an object on one line, or indented."""
    text = msgspec.json.encode(found)
    print((msgspec.json.format(text) if pretty else text).decode(), flush=True)


def print_outcome(topology: str, outcome: str, *, json: bool, **facts: object) -> None:
    """Print the outcome of a change as a sentence, or as an object with further facts."""
    if json:
        print_json({"topology": topology, "outcome": outcome, **facts})
    else:
        print(outcome)


def flags(json: bool) -> list[str]:
    """Return the option that passes `json` to the command in a pod."""
    return ["--json"] if json else []


@contextmanager
def prose_on_stderr(json: bool) -> Iterator[None]:
    """During the block, print to stderr if the result will be JSON."""
    if not json:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield
