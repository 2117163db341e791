"""What spout tasks and bolt tasks share: calling the user's code without ever awaiting it here.

`kstorm.core` has no event loop. A method of the user's that is `async` returns an awaitable, and the task's generator
yields it to the driver, which awaits it and throws into the generator what it raised. For plain methods the generator
runs through without a single yield.
"""

from collections.abc import Awaitable, Callable, Generator
from inspect import isawaitable
from typing import Any

from kstorm.errors import KstormError

Steps = Generator[Awaitable[Any] | None, None, None]
"""A piece of work that may have to be waited for. It yields what the driver must await, or None where the driver may
turn to something else before it goes on."""

OnError = Callable[[BaseException, str], None]
"""Told of an error in the user's code, with what was being done."""


async def drive(steps: Steps, pause: Callable[[], Awaitable[None] | None] = lambda: None) -> None:
    """Runs a piece of work to its end inside a coroutine; `pause` is asked at each None whether to wait there."""
    try:
        pending = next(steps)
        while True:
            if pending is None:
                pending = pause()
            if pending is None:
                pending = next(steps)
                continue
            try:
                await awaitable(pending)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything; the task decides
                pending = steps.throw(error)
            else:
                pending = next(steps)
    except StopIteration:
        return


async def settle(result: Awaitable[Any] | None) -> None:
    """Awaits what a method of the user's returned, if it was async."""
    if isawaitable(result):
        await result


def awaitable(result: Any) -> Awaitable[Any]:
    """What `execute`, `next_tuple`, `ack` or `fail` returned other than None. Raises `KstormError` if it cannot be awaited:
    something is wrong then; a method with a `yield` in it, say, has done nothing at all."""
    if isawaitable(result):
        return result
    raise KstormError(
        f"a component's method returned {result!r}: let it return nothing, or make it async"
    )
