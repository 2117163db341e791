"""Options shared by several commands, as fields of a dataclass.

Typer requires every option in the signature of each command, which this decorator generates.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any


def with_options(kind: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: add the fields of the dataclass to a command's options, and pass the command an
    instance."""
    shared = inspect.signature(kind).parameters

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: Any) -> None:
            options = kind(**{name: given.pop(name) for name in shared})
            command(options, **given)

        _, *own = inspect.signature(command).parameters.values()
        run.__signature__ = inspect.Signature([*own, *shared.values()])  # type: ignore[attr-defined]
        return run

    return decorate
