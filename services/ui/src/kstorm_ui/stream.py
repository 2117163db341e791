"""Server-sent events: a piece of the page that htmx puts in its place, and a sample for what draws.

One connection a page has both. A comment every 15 s keeps proxies from closing a quiet one; how often something is sent is the
collector's, not the viewer's.
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
"""A proxy's buffer would hold it back."""

Piece = Callable[[], tuple[str, Any] | None]
"""The piece of HTML and the sample as they are now; None if there is nothing to show any more."""


Growth = Callable[[bool], Awaitable[tuple[str, bool]]]
"""The piece of HTML as it is now, and whether it is the last one; it is given whether it has to be."""


def stream(collector: Collector, piece: Piece) -> StreamingResponse:
    """Sends at once, and after each look."""
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
    """Looks again and again, in the collector's rhythm, until nothing more is to come, or for so many seconds; who follows is told
    by the event `over` that it is so."""
    events = _growing(collector, look, time.monotonic() + most_secs)
    return StreamingResponse(events, media_type="text/event-stream", headers=_HEADERS)


async def _growing(collector: Collector, look: Growth, deadline: float) -> AsyncIterator[bytes]:
    yield b"retry: 2000\n\n"
    async for _ in collector.follow(_HEARTBEAT_SECS):
        looking = asyncio.ensure_future(look(time.monotonic() >= deadline))
        try:
            while not (await asyncio.wait([looking], timeout=_SLOW_SECS))[0]:
                yield b"event: looking\n\n"  # else the page would say that it hears nothing
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
