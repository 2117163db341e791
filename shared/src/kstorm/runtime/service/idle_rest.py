"""Lets the loops of a process rest longer while nothing happens.

An idle process would wake up about a hundred times per second otherwise.
"""

import asyncio
import time
from contextlib import suppress
from typing import Final

_AWAKE_SECS: Final = 1.0
"""After this time without input or output, a process is idle."""
_LONG_SECS: Final = 0.1
"""Longest rest. Calls that other threads hand over wait for its end."""


class IdleRest:
    """The rests of one event loop's coroutines."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """There is input or output: end the long rests, and begin none for a while."""
        self._last = time.monotonic()
        self._woken.set()

    async def rest(self, seconds: float) -> None:
        """Rest for `seconds`, or longer while the process is idle."""
        if time.monotonic() - self._last < _AWAKE_SECS:
            await asyncio.sleep(seconds)
            return
        self._woken.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), _LONG_SECS)
