"""The web port as a service opens it: its pages, and the resources that a stranger can hold."""

import asyncio
import pkgutil
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from faust.web import apps, base
from mode.utils.imports import symbol_by_name

from tests.unit.runtime.serving import SHORT, alive, ended, run, serving

HALF = b"GET /livez HTTP/1.1\r\nHost: kstorm\r\n"


def test_probes_are_answered_while_a_stranger_holds_half_sent_requests(tmp_path: Path) -> None:
    """New connections replace the oldest ones, and the stored data does not grow."""

    async def main() -> None:
        async with serving(tmp_path, alive()) as served:
            held = [await served.connect(HALF) for _ in range(100)]
            assert [await ended(each) for each in held[:84]] == [b""] * 84
            await served.until(16, of=100)
            assert await served.get("/livez") == (200, "ok\n")
            assert await ended(held[84]) == b""
            assert not held[99][0].at_eof()
            await served.until(15, of=101)

    run(main())


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET", HALF, b"GET /metrics HTTP/1.1\r\nHost: kstorm\r\n\r\n"],
    ids=["nothing", "half a line", "half a request", "a request, and its answer is not taken"],
)
def test_stalled_request_is_closed(tmp_path: Path, sent: bytes) -> None:
    """The connection is closed at its timeout, and its data is freed."""

    async def main() -> None:
        async with serving(tmp_path, alive(metrics=bytes(16 << 20)), SHORT) as served:
            begun = time.monotonic()
            held = [await served.connect(sent) for _ in range(3)]
            await served.until(0, of=3)
            assert time.monotonic() - begun > SHORT.seconds / 2
            assert await served.get("/livez") == (200, "ok\n")
            del held

    run(main())


def test_a_request_that_comes_byte_by_byte_is_cut_as_well(tmp_path: Path) -> None:
    """Received bytes do not restart the time limit."""

    async def main() -> None:
        async with serving(tmp_path, alive(), SHORT) as served:
            connection = await served.connect(HALF)
            end = asyncio.ensure_future(ended(connection))
            while not end.done():
                connection[1].write(b"a")
                await asyncio.sleep(0.01)
            assert await end == b""

    run(main())


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_connection_is_for_one_request(tmp_path: Path, version: str) -> None:
    """A connection is never reused. A second request that was already sent gets no response."""

    async def main() -> None:
        async with serving(tmp_path, alive()) as served:
            request = f"GET /livez HTTP/{version}\r\nHost: kstorm\r\nConnection: keep-alive\r\n\r\n".encode()
            status, head, body = await served.ask(request * 3)
            assert (status, body) == (200, "ok\n")
            assert "Connection: close" in head
            await served.until(0, of=1)

    run(main())


def test_a_body_is_not_waited_for(tmp_path: Path) -> None:
    """No page needs a body."""

    async def main() -> None:
        async with serving(tmp_path, alive()) as served:
            status, _, _ = await served.ask(
                b"POST /livez HTTP/1.1\r\nHost: kstorm\r\nContent-Length: 9999\r\n\r\n"
            )
            assert status == 405
            await served.until(0, of=1)

    run(main())


def test_headers_without_end_are_refused(tmp_path: Path) -> None:
    """They are refused early, because aiohttp stores headers until the request is complete."""

    async def main() -> None:
        async with serving(tmp_path, alive()) as served:
            for number, answered in ((50, 200), (100, 400)):
                status, _, _ = await served.ask(HALF + b"X: x\r\n" * number + b"\r\n")
                assert status == answered

    run(main())


def faust_pages() -> Iterator[str]:
    """Yields the paths of all pages that Faust can serve."""
    listed = [
        *base.DEFAULT_BLUEPRINTS,
        *base.PRODUCTION_BLUEPRINTS,
        *base.DEBUG_BLUEPRINTS,
        *base.OPTIONAL_BLUEPRINTS,
    ]
    for prefix, blueprint in listed:
        for route in symbol_by_name(blueprint).routes:
            yield re.sub(r"\{\w+\}", "x", prefix + route.uri)


def test_all_apps_of_faust_are_known() -> None:
    """The modules of its package are those in its lists."""
    names = {module.name for module in pkgutil.iter_modules(apps.__path__)}
    assert names == {"router", "tables", "production_index", "graph", "stats", "metrics"}
    found = {*faust_pages()}
    assert {
        "/",
        "/router/",
        "/router/topics",
        "/router/x/x/",
        "/table/x/x/",
        "/graph/",
        "/assignment/",
    } <= found


def test_there_are_five_pages_and_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Faust's own pages are off, and requests for them are not logged."""

    async def main() -> None:
        async with serving(tmp_path, alive()) as served:
            for path in ("/livez", "/readyz", "/metrics", "/status", "/topology"):
                assert (await served.get(path))[0] == 200, path
            for path in (
                *faust_pages(),
                "/livez/",
                "/status/x",
                "/%00",
                "/../etc/passwd",
                "//status",
            ):
                assert await served.get(path) == (404, "404: Not Found"), path

    run(main())
    assert [record.getMessage() for record in caplog.records] == []


NO_HTTP = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "no path": b"GET\r\n\r\n",
    "no version": b"GET / HTTP/9.9\r\n\r\n",
    "no host": b"GET http://[::1 HTTP/1.1\r\nHost: kstorm\r\n\r\n",
    "no header": b"GET /livez HTTP/1.1\r\nno header\r\n\r\n",
    "no length": b"GET /livez HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "no chunk": b"GET /livez HTTP/1.1\r\nHost: kstorm\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a long header": b"GET /livez HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    "a long path": b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
    "many headers": b"GET /livez HTTP/1.1\r\n" + b"X: x\r\n" * 100 + b"\r\n",
    "an expectation": b"GET /livez HTTP/1.1\r\nHost: kstorm\r\nExpect: wonders\r\n\r\n",
    "an upgrade": b"GET /livez HTTP/1.1\r\nHost: kstorm\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
}


@pytest.mark.parametrize("sent", NO_HTTP.values(), ids=NO_HTTP)
def test_invalid_http_closes_the_connection_without_a_log_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    """A stranger can neither write to the log nor read data of the process."""

    async def main() -> None:
        async with serving(tmp_path, alive()) as served:
            answer = await ended(await served.connect(sent))
            assert b"Traceback" not in answer
            assert b".py" not in answer
            await served.until(0, of=1)
            assert await served.get("/livez") == (200, "ok\n")

    run(main())
    assert [record.getMessage() for record in caplog.records] == []
