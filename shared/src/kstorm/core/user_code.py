"""Runs user code from tasks without awaiting it here, because `kstorm.core` has no event loop.

An `async` user method returns an awaitable. The task's generator yields it to the driver, which
awaits it and throws its exception into the generator. With plain methods, the generator runs
through without a yield.
"""

from collections.abc import Awaitable, Callable, Generator
from inspect import isawaitable
from typing import Any

from kstorm.errors import KstormError

Steps = Generator[Awaitable[Any] | None, None, None]
"""A piece of work that may have to wait.

It yields an awaitable that the driver must await, or None where the driver may do other work first.
"""

OnError = Callable[[BaseException, str], None]
"""Called with an error in user code and a description of the activity."""


async def drive(steps: Steps, pause: Callable[[], Awaitable[None] | None] = lambda: None) -> None:
    """Run a piece of work to its end in a coroutine.

    At each None, `pause` may return an awaitable to wait for.
    """
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
            except Exception as error:  # noqa: BLE001 - user code may raise anything; the task decides
                pending = steps.throw(error)
            else:
                pending = next(steps)
    except StopIteration:
        return


async def settle(result: Awaitable[Any] | None) -> None:
    """Await the result of a user method if the method is async."""
    if isawaitable(result):
        await result


def awaitable(result: Any) -> Awaitable[Any]:
    """Return the result of a user method if it can be awaited. Otherwise raises `KstormError`.

    Any other result except None is a mistake: a method with a `yield` in it has not run at all, for
    example.
    """
    if isawaitable(result):
        return result
    raise KstormError(
        f"a component's method returned {result!r}: it must return nothing or be async"
    )
