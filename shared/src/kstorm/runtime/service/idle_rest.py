"""Lets the loops of a process rest longer while nothing happens.

An idle process would wake up about a hundred times per second otherwise.
"""

import asyncio
import time
from typing import Final

_AWAKE_SECS: Final = 1.0
"""After this time without input or output, a process is idle."""
_LONG_SECS: Final = 0.1
"""Longest rest. Calls that other threads hand over wait for its end."""


class IdleRest:
    """The rests of one event loop's coroutines."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._resting: list[asyncio.Future[None]] = []

    def wake(self) -> None:
        """There is input or output: end the long rests, and begin none for a while."""
        self._last = time.monotonic()
        for rest in self._resting:
            _end(rest)
        self._resting.clear()

    async def rest(self, seconds: float) -> None:
        """Rest for `seconds`, or longer while the process is idle."""
        if time.monotonic() - self._last < _AWAKE_SECS:
            await asyncio.sleep(seconds)
            return
        # `asyncio.wait_for` would cost twice as much CPU.
        rest: asyncio.Future[None] = self._loop.create_future()
        timer = self._loop.call_later(_LONG_SECS, _end, rest)
        self._resting.append(rest)
        try:
            await rest
        finally:
            timer.cancel()
            if rest in self._resting:
                self._resting.remove(rest)


def _end(rest: "asyncio.Future[None]") -> None:
    if not rest.done():
        rest.set_result(None)
