"""Print results as JSON for programs."""

from typing import Annotated

import msgspec
import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def print_json(found: object, *, pretty: bool = False) -> None:
    """Print an object on one line, or indented."""
    text = msgspec.json.encode(found)
    print((msgspec.json.format(text) if pretty else text).decode(), flush=True)
