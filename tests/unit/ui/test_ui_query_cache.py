"""Queries on demand: shared by concurrent viewers, and only while someone views the page."""

import asyncio
from collections.abc import Sequence
from threading import Event

import pytest

from kstorm.errors import AbsentError, BrokerError, KstormError
from kstorm_ui import stream
from kstorm_ui.collector import Collector
from kstorm_ui.query_cache import QueryCache
from kstorm_ui.sources.process_logs import LogLife
from kstorm_ui.sources.report import TopologyReport


class Nothing:
    """A source without topologies."""

    def log(self, topology: str, process: str) -> Sequence[LogLife]:
        return ()

    def look(self) -> Sequence[TopologyReport]:
        return []


def test_viewers_share_a_query() -> None:
    """Also viewers who come while it runs. A fresh answer needs one more query."""
    asked: list[int] = []
    go = Event()

    def ask() -> int:
        assert go.wait(20)
        asked.append(1)
        return len(asked)

    async def look() -> list[int]:
        answers = QueryCache(2)
        looking = [asyncio.ensure_future(answers.answer("one", ask, kept=0.0)) for _ in range(5)]
        await asyncio.sleep(0)
        go.set()
        first = [found for found, _ in await asyncio.gather(*looking)]
        old = (await answers.answer("one", ask))[0]
        fresh = (await answers.answer("one", ask, kept=0.0))[0]
        return [*first, old, fresh]

    assert asyncio.run(look()) == [1, 1, 1, 1, 1, 1, 2]


@pytest.mark.parametrize(
    ("error", "status"),
    [(AbsentError("no such message"), 404), (BrokerError("Kafka is away"), 503)],
)
def test_status_of_absent_objects_and_of_unavailable_servers_differs(
    error: KstormError, status: int
) -> None:

    def ask() -> None:
        raise error

    found, problem = asyncio.run(QueryCache(1).answer("x", ask))
    assert (found, problem, problem.status) == (None, str(error), status)


def test_an_answer_has_no_problem() -> None:
    found, problem = asyncio.run(QueryCache(1).answer("x", lambda: 7))
    assert (found, bool(problem), problem.status) == (7, False, 200)


def follow(
    looks: Sequence[tuple[str, bool]], most_secs: float = 60.0, slow: Event | None = None
) -> str:
    """Return everything that is sent to a viewer if the polls return `looks`."""
    left = list(looks)

    async def look(is_last: bool) -> tuple[str, bool]:
        if slow is not None:
            await asyncio.to_thread(slow.wait, 20)
        html, is_over = left.pop(0)
        return f"{html}{' last' if is_last else ''}", is_over or is_last

    async def run() -> str:
        collector = Collector(Nothing(), every=0.0)
        looking = asyncio.create_task(collector.run())
        sent = []
        async for part in stream.growing(collector, look, most_secs).body_iterator:
            sent.append(part if isinstance(part, str) else bytes(part).decode())
            if slow is not None and "looking" in sent[-1]:
                slow.set()
        await collector.stop()
        await looking
        return "".join(sent)

    return asyncio.run(asyncio.wait_for(run(), 60))


def test_fragments_are_sent_until_the_last() -> None:
    """A final event makes the viewer close the connection."""
    sent = follow([("one", False), ("two", False), ("three", True), ("four", True)])
    assert [line for line in sent.splitlines() if line] == [
        "retry: 2000",
        "data: one",
        "data: two",
        "data: three",
        "event: over",
    ]


def test_following_ends_after_the_limit() -> None:
    """The query knows which fragment is the last."""
    assert "data: one last\n\nevent: over" in follow(
        [("one", False), ("two", False)], most_secs=0.0
    )


def test_slow_query_keeps_the_connection_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the page would report a lost connection."""
    monkeypatch.setattr(stream, "_SLOW_SECS", 0.01)
    assert "event: looking\n\n" in follow([("one", True)], slow=Event())


def test_requests_that_wait_are_answered_at_the_shutdown() -> None:
    """With a problem, although their query still runs."""
    go = Event()

    async def look() -> tuple[object, str, int]:
        answers = QueryCache(1)
        waiting = asyncio.ensure_future(answers.answer("one", lambda: go.wait(20)))
        await asyncio.sleep(0)
        answers.close()
        found, problem = await asyncio.wait_for(waiting, 5)
        go.set()
        return found, str(problem), problem.status

    found, problem, status = asyncio.run(look())
    assert (found, status) == (None, 503)
    assert problem.startswith("the web UI shuts down")
