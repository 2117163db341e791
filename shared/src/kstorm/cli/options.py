"""Options that several commands share, as the fields of a dataclass: typer itself has them written down for each."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any


def with_options(kind: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the fields of a dataclass as options behind its own, and it one that is made of them."""
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
