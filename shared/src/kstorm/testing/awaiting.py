"""What users' code returns to be awaited, one await at a time: between two of them a simulated world goes on."""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import suppress
from functools import partial
from typing import Any

from kstorm.core.tasks import awaitable


class Awaiting:
    """An awaitable that goes on to its next await when it is asked to, and stands still until then.

    It is one asyncio task from beginning to end, so timeouts and task groups in it work. An await of something outside of
    the simulated world, such as a thread or a timer, is waited for there and then, so that the same seed gives the same run.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, result: Any) -> None:
        """`result`: what a component's method returned; if it cannot be awaited, `go_on` raises `KstormError`."""
        self._loop = loop
        self._result, self._inner = result, _awaited(result)
        self._task: asyncio.Task[None] | None = None
        self._gate = self._stands = loop.create_future()
        self._free = False  # whether it stands still no more, as it was cancelled

    def go_on(self) -> bool:
        """Goes on to the next await; whether it has ended. Raises what it raises."""
        gate, self._gate, self._stands = (
            self._gate,
            self._loop.create_future(),
            self._loop.create_future(),
        )
        if self._task is None:
            self._task = self._loop.create_task(self._run())
            self._task.add_done_callback(self._ended)
        elif not gate.done():
            gate.set_result(None)
        self._loop.run_until_complete(self._stands)
        return self._task.done() and self._task.result() is None

    def abandon(self) -> None:
        """Its process is gone: it does not go on any more."""
        with suppress(
            RuntimeError
        ):  # it awaits something on its way out, which nobody does for the dead
            self._inner.close()
            if isinstance(self._result, Coroutine):  # which may not have begun
                self._result.close()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        await self

    def __await__(self) -> Generator[Any, None, None]:
        step = partial(self._inner.send, None)
        while True:
            try:
                awaited = step()
            except StopIteration:
                return
            try:
                if awaited is not None:
                    yield awaited
                yield from self._stand()
            except BaseException as error:  # noqa: BLE001 - what is awaited raised, or was cancelled: the user's code hears of it
                step = partial(self._inner.throw, error)
            else:
                step = partial(self._inner.send, None)

    def _stand(self) -> Generator[Any, None, None]:
        if self._free:
            yield
            return
        self._stop()
        try:
            yield from self._gate
        except asyncio.CancelledError:
            self._free = True
            raise

    def _stop(self) -> None:
        if not self._stands.done():
            self._stands.set_result(None)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            task.exception()  # or else asyncio would complain that nobody heard of it
        self._stop()


async def _awaited(result: Any) -> None:
    await awaitable(result)
