"""Server-sent events: a piece of the page that htmx puts in its place, and a sample for what draws.

One connection a page has both. A comment every 15 s keeps proxies from closing a quiet one; how often something is sent is the
collector's, not the viewer's.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import msgspec
from starlette.responses import StreamingResponse

from kstorm_ui.collector import Collector

_HEARTBEAT_SECS: Final = 15.0

Piece = Callable[[], tuple[str, Any] | None]
"""The piece of HTML and the sample as they are now; None if there is nothing to show any more."""


def stream(collector: Collector, piece: Piece) -> StreamingResponse:
    """Sends at once, and after each look."""
    headers = {"X-Accel-Buffering": "no"}  # a proxy's buffer would hold it back
    return StreamingResponse(_events(collector, piece), media_type="text/event-stream", headers=headers)


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


def _both(html: str, sample: Any) -> bytes:
    lines = "".join(f"data: {line}\n" for line in html.splitlines())
    return f"{lines}\nevent: sample\ndata: {msgspec.json.encode(sample).decode()}\n\n".encode()
