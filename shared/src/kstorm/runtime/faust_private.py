"""All uses of private members of Faust and Mode.

No other module touches a private member of theirs. `tests/unit/runtime/test_faust_private.py` is
the contract: it fails if an installed release has renamed one of these members, or no longer uses
it as described here.
"""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import faust
from aiohttp.web import AppRunner
from faust.web.drivers.aiohttp import Web

_CANCEL_SECONDS = 1.0


class AppWithOwnWeb(faust.App):  # type: ignore[misc]
    """A Faust app that is served by `make_web()`. `App.web` calls `_new_web` once."""

    def make_web(self) -> Web:
        raise NotImplementedError

    def _new_web(self) -> Web:
        return self.make_web()


def runner_of(web: Web) -> AppRunner:
    """Return aiohttp's runner of a web server. Without it, Faust would listen itself, with no
    limits."""
    runner: AppRunner = web._runner
    return runner


class OrderlyWorker(faust.Worker):  # type: ignore[misc]
    """Awaits `before_stop()` on a signal while the app still runs, and exits right after the app
    has stopped."""

    def __init__(self, app: faust.App, loop: asyncio.AbstractEventLoop, **options: Any) -> None:
        super().__init__(app, loop=loop, **options)
        self.spinner = None
        self._ending: asyncio.Task[None] | None = None

    async def before_stop(self) -> None:
        """Called once, on the first signal."""

    async def _stop_on_signal(self, signal: Any) -> None:
        # Mode's handler of SIGTERM and SIGINT schedules this method.
        if self._ending is None:
            self._ending = asyncio.ensure_future(self.before_stop())
        await self._ending
        await super()._stop_on_signal(signal)

    def _gather_all(self) -> None:
        # Mode calls this method when the app has stopped. Mode's own version waits for running
        # tasks, one second at a time. But a pod's successor only starts once this process has
        # exited, and no important task is left.
        for task in asyncio.all_tasks(self.loop):
            task.cancel()

    async def _sentinel_task(self) -> None:
        # Mode runs this to its end as the last task of the loop.
        if cancelled := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(cancelled, timeout=_CANCEL_SECONDS)


def open_partition(store: Any, partition: int) -> Any:
    """Open a partition of a table's store, and return its `rocksdict.Rdict`. Blocks."""
    return store._db_for_partition(partition)


def open_partitions(store: Any) -> MutableMapping[int, Any]:
    """Return the open partitions by number. The store uses the same mapping object throughout its
    life."""
    partitions: MutableMapping[int, Any] = store._dbs
    return partitions
