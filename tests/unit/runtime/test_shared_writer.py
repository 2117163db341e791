"""The tasks of a process share a producer, and each one waits only for its own records."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kstorm.errors import BrokerError
from kstorm.runtime.kafka import shared_writer
from kstorm.runtime.kafka.shared_writer import SharedWriters


class FakeWriter:
    """Reports a record when the test calls its report."""

    def __init__(self) -> None:
        self.reports: list[Callable[[], None]] = []
        self.closed = self.full = False

    def write(
        self, topic: str, key: Any, value: Any, on_delivery: Any, headers: Any = None
    ) -> None:
        if self.full:
            raise BrokerError("full")
        self.reports.append(lambda: on_delivery(None, value))

    def write_batch(
        self, topic: str, keys: Any, values: Any, on_done: Any, headers: Any = None
    ) -> None:
        self.reports.append(lambda: on_done([]))

    async def close(self) -> None:
        self.closed = True


def shared() -> tuple[SharedWriters, list[FakeWriter]]:
    opened: list[FakeWriter] = []

    def open_writer() -> FakeWriter:
        opened.append(FakeWriter())
        return opened[-1]

    return SharedWriters(open_writer), opened


def test_one_writer_is_open_while_it_is_used() -> None:
    async def run() -> None:
        writers, opened = shared()
        one, two = writers.lend(), writers.lend()
        assert len(opened) == 1
        await one.close()
        await one.close()  # again
        assert not opened[0].closed
        await two.close()
        assert opened[0].closed
        writers.lend()
        assert len(opened) == 2

    asyncio.run(run())


@pytest.mark.parametrize("batch", [False, True])
def test_a_close_waits_for_its_own_records(batch: bool) -> None:
    """It does not wait for other tasks' records, which may never end."""

    async def run() -> None:
        done: list[Any] = []
        writers, opened = shared()
        one, two = writers.lend(), writers.lend()
        two.write("t", None, b"other", lambda error, record: None)
        if batch:
            one.write_batch("t", [None], [b"mine"], done.append)
        else:
            one.write("t", None, b"mine", lambda error, record: done.append(record))
        closing = asyncio.ensure_future(one.close())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not closing.done()
        opened[0].reports[1]()
        await asyncio.wait_for(closing, 4)
        assert len(done) == 1

    asyncio.run(run())


def test_a_refused_record_is_not_waited_for() -> None:
    async def run() -> None:
        writers, opened = shared()
        one = writers.lend()
        opened[0].full = True
        with pytest.raises(BrokerError):
            one.write("t", None, b"", lambda error, record: None)
        await asyncio.wait_for(one.close(), 4)

    asyncio.run(run())


def test_close_has_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_writer, "_CLOSE_SECS", 0.01)

    async def run() -> None:
        writers, opened = shared()
        one = writers.lend()
        one.write("t", None, b"", lambda error, record: None)
        await asyncio.wait_for(one.close(), 4)
        assert opened[0].closed

    asyncio.run(run())
