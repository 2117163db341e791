"""Runs async user code one await at a time, so that simulated processes can act between awaits."""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import suppress
from functools import partial
from typing import Any

from kstorm.core.user_code import awaitable


class SteppedAwaitable:
    """An awaitable that advances to its next await only when `go_on` is called.

    It is a single asyncio task from start to finish, so timeouts and task groups inside it work.
    Awaits on anything outside the simulation, such as a thread or a timer, block right there. So
    the same seed gives the same run.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, result: Any) -> None:
        """`result`: the return value of a component's method. If it is not awaitable, `go_on`
        raises `KstormError`."""
        self._loop = loop
        self._result, self._inner = result, _awaited(result)
        self._task: asyncio.Task[None] | None = None
        self._gate = self._stands = loop.create_future()
        self._free = False  # cancelled: later awaits no longer stop at the gate

    def go_on(self) -> bool:
        """Advance to the next await. Return True once it has ended. Propagate what it raises."""
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
        """Stop advancing, because its process is dead."""
        # Its clean-up code awaits something, which cannot run in a dead process.
        with suppress(RuntimeError):
            self._inner.close()
            if isinstance(self._result, Coroutine):  # it may not have started
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
            except BaseException as error:  # noqa: BLE001 - user code handles it
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
            # Retrieve the exception. Otherwise asyncio would log that it was never retrieved.
            task.exception()
        self._stop()


async def _awaited(result: Any) -> None:
    await awaitable(result)
