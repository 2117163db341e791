"""Yield to the event loop between pieces of user code, for probes, heartbeats and deliveries."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

_BREATH_SECS: Final = 0.02
_SLOW_SECS: Final = 0.005


class LoopYielder:
    """Called whenever a task offers a pause. Slow bolts offer one after each tuple, fast ones after
    64."""

    def __init__(self, pace: Callable[[int], None], poll: Callable[[], object]) -> None:
        """`pace` receives the number of tuples until the next pause. `poll` serves delivery
        reports."""
        self._pace, self._poll = pace, poll
        self._last = self._breath = 0.0

    def __call__(self) -> Awaitable[None] | None:
        """Return an awaitable, or None if the loop has run recently."""
        now = time.monotonic()
        self._pace(64 if now - self._last < _SLOW_SECS else 1)
        self._last = now
        if now - self._breath < _BREATH_SECS:
            return None
        self._breath = now
        return self._breathe()

    async def _breathe(self) -> None:
        self._poll()
        await asyncio.sleep(0)
