"""Server-sent events: an HTML fragment that htmx swaps in, and a sample for charts and graphs.

Each page has one connection for both. A comment every 15 s prevents proxies from closing an idle
connection. The collector, and not the viewer, determines how often events are sent.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.responses import StreamingResponse

from kstorm_ui.collector import Collector

_HEARTBEAT_SECS: Final = 15.0
_SLOW_SECS: Final = 5.0
_HEADERS: Final = {"X-Accel-Buffering": "no"}
"""Prevents a proxy's buffer from delaying events."""

Piece = Callable[[], tuple[str, Any] | None]
"""Returns the current HTML fragment and sample, or None if there is nothing to show any more."""


Growth = Callable[[bool], Awaitable[tuple[str, bool]]]
"""Returns the current HTML fragment, and True if it is the last. The argument is True if it must be
the last."""


def stream(collector: Collector, piece: Piece) -> StreamingResponse:
    """Send the fragment immediately, and after each poll."""
    return StreamingResponse(
        _events(collector, piece), media_type="text/event-stream", headers=_HEADERS
    )


async def _events(collector: Collector, piece: Piece) -> AsyncIterator[bytes]:
    yield b"retry: 2000\n\n"
    found = piece()
    if found is not None:
        yield _both(*found)
    async for new in collector.follow(_HEARTBEAT_SECS):
        if not new:
            yield b": still here\n\n"
        elif (found := piece()) is not None:
            yield _both(*found)


def growing(collector: Collector, look: Growth, most_secs: float) -> StreamingResponse:
    """Poll at the collector's interval until the fragment is final, or for `most_secs`.

    The final event `over` notifies the viewer of the end.
    """
    events = _growing(collector, look, time.monotonic() + most_secs)
    return StreamingResponse(events, media_type="text/event-stream", headers=_HEADERS)


async def _growing(collector: Collector, look: Growth, deadline: float) -> AsyncIterator[bytes]:
    yield b"retry: 2000\n\n"
    async for _ in collector.follow(_HEARTBEAT_SECS):
        looking = asyncio.ensure_future(look(time.monotonic() >= deadline))
        try:
            while not (await asyncio.wait([looking], timeout=_SLOW_SECS))[0]:
                yield b"event: looking\n\n"  # otherwise the page would report a lost connection
        finally:
            looking.cancel()
        html, is_over = await looking
        yield _piece(html)
        if is_over:
            yield b"event: over\n\n"
            return


def _both(html: str, sample: Any) -> bytes:
    return (
        _piece(html) + f"event: sample\ndata: {msgspec.json.encode(sample).decode()}\n\n".encode()
    )


def _piece(html: str) -> bytes:
    return "".join([*(f"data: {line}\n" for line in html.splitlines()), "\n"]).encode()
