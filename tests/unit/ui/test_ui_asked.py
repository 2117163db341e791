"""What is asked when somebody looks: once for all who look, and not for longer than somebody does."""

import asyncio
from collections.abc import Sequence
from threading import Event

import pytest

from kstorm.errors import AbsentError, BrokerError, KstormError
from kstorm_ui import stream
from kstorm_ui.asked import Asked
from kstorm_ui.collector import Collector
from kstorm_ui.sources.logs import Life
from kstorm_ui.sources.report import TopologyReport


class Nothing:
    """A source without topologies."""

    def log(self, topology: str, process: str) -> Sequence[Life]:
        return ()

    def look(self) -> Sequence[TopologyReport]:
        return []


def test_many_who_look_at_the_same_ask_once() -> None:
    """Also those who come while the answer is under way; a fresh one is asked for once they want one, and by one of them."""
    asked: list[int] = []
    go = Event()

    def ask() -> int:
        assert go.wait(20)
        asked.append(1)
        return len(asked)

    async def look() -> list[int]:
        answers = Asked(2)
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
def test_what_is_not_there_is_another_thing_than_nobody_who_says(
    error: KstormError, status: int
) -> None:
    """Each in words."""

    def ask() -> None:
        raise error

    found, problem = asyncio.run(Asked(1).answer("x", ask))
    assert (found, problem, problem.status) == (None, str(error), status)


def test_an_answer_has_no_problem() -> None:
    """Nor words."""
    found, problem = asyncio.run(Asked(1).answer("x", lambda: 7))
    assert (found, bool(problem), problem.status) == (7, False, 200)


def follow(
    looks: Sequence[tuple[str, bool]], most_secs: float = 60.0, slow: Event | None = None
) -> str:
    """What is sent to one who follows what looks like this, one after the other."""
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


def test_what_grows_is_sent_until_it_is_over() -> None:
    """And who follows is told not to come again."""
    sent = follow([("one", False), ("two", False), ("three", True), ("four", True)])
    assert [line for line in sent.splitlines() if line] == [
        "retry: 2000",
        "data: one",
        "data: two",
        "data: three",
        "event: over",
    ]


def test_what_does_not_end_is_not_followed_for_ever() -> None:
    """The last piece can say so."""
    assert "data: one last\n\nevent: over" in follow(
        [("one", False), ("two", False)], most_secs=0.0
    )


def test_who_waits_for_a_slow_look_hears_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the page would say that its server is gone."""
    monkeypatch.setattr(stream, "_SLOW_SECS", 0.01)
    assert "event: looking\n\n" in follow([("one", True)], slow=Event())
