"""Waiting for a condition in an asynchronous test."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], timeout: float = 20.0) -> None:
    """Wait until the condition is true, and fail after `timeout` seconds."""
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.01)
