"""`KestrelSpout` and its reader on Kestrel servers: open items, items that are put back, and the
blacklist."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest

from kstorm.queues import HostInfo, KestrelConfig, QueueMessageId
from kstorm.runtime.queues.kestrel import KestrelReader
from tests.integration.conftest import RunTopology
from tests.integration.kestrel_server import KestrelServer
from tests.integration.queue_messages import take
from tests.integration.until import until

Open = Callable[..., KestrelReader]


@pytest.fixture
def server() -> Iterator[KestrelServer]:
    with KestrelServer() as started:
        yield started


@pytest.fixture
async def read() -> AsyncIterator[Open]:
    """A function that opens started readers of the queue `q`, with a blacklist time of half a
    second."""
    async with AsyncExitStack() as stack:

        def open_reader(
            servers: Sequence[KestrelServer], open_reads: int = 1, **settings: Any
        ) -> KestrelReader:
            config = KestrelConfig(**{"poll_ms": 100, "blacklist_time_secs": 0.5, **settings})
            hosts = [HostInfo("127.0.0.1", server.port) for server in servers]
            reader = KestrelReader(config, "q", hosts, open_reads)
            stack.push_async_callback(reader.close)
            reader.start()
            return reader

        yield open_reader


async def test_message_is_open_until_it_is_acked(server: KestrelServer, read: Open) -> None:
    """Then it is removed, and the connection opens the next one."""
    server.put("q", b"a\r\nEND\r\n", b"b")
    reader = read([server])
    (first,) = await take(reader)
    assert first.value == b"a\r\nEND\r\n"
    assert (server.open("q"), server.waiting("q")) == ([first.value], [b"b"])
    reader.ack(first.id)
    (second,) = await take(reader)
    assert (second.value, server.open("q"), server.waiting("q")) == (b"b", [b"b"], [])
    assert second.id != first.id


@pytest.mark.slow
async def test_message_put_back_returns_at_once(server: KestrelServer, read: Open) -> None:
    """It is at the head of the queue, as after an abort in Kestrel. It has another id."""
    server.put("q", b"a", b"b")
    reader = read([server])
    (first,) = await take(reader)
    reader.put_back(first.id)
    (again,) = await take(reader)
    assert (again.value, again.id != first.id) == (b"a", True)


@pytest.mark.slow
async def test_each_connection_has_one_open_message(server: KestrelServer, read: Open) -> None:
    """Three connections have three open messages. Acks may come in any order."""
    server.put("q", *(b"%d" % number for number in range(10)))
    reader = read([server], open_reads=3)
    messages = await take(reader, 3)
    assert sorted(server.open("q")) == [b"0", b"1", b"2"]
    assert (reader.connections, server.connections) == (3, 3)
    for message in reversed(messages):
        reader.ack(message.id)
    assert {message.value for message in await take(reader, 3)} == {b"3", b"4", b"5"}


@pytest.mark.slow
async def test_ack_for_a_closed_connection_is_ignored(server: KestrelServer, read: Open) -> None:
    """The message is in the queue again. An ack of its earlier read must not remove it."""
    server.put("q", b"a")
    reader = read([server], blacklist_time_secs=0.05)
    (old,) = await take(reader)
    await asyncio.to_thread(server.drop)
    (new,) = await take(reader)
    assert new.value == b"a"
    reader.ack(old.id)
    reader.put_back(old.id)
    reader.ack(QueueMessageId(99, 1))
    await reader.close()
    await until(lambda: (server.waiting("q"), server.open("q")) == ([b"a"], []))


@pytest.mark.slow
async def test_untaken_message_of_a_closed_connection_is_dropped(
    server: KestrelServer, read: Open
) -> None:
    """It is in the queue again, so it would be processed twice."""
    server.put("q", b"a")
    reader = read([server])
    await until(lambda: server.open("q") == [b"a"])
    await asyncio.to_thread(server.stop)
    await until(lambda: reader.connections == 0)
    assert reader.take() is None
    assert server.waiting("q") == [b"a"]


@pytest.mark.slow
async def test_reading_continues_after_a_server_restart(server: KestrelServer, read: Open) -> None:
    """Meanwhile the readiness check names the server. No message is lost."""
    server.put("q", b"a")
    reader = read([server])
    await take(reader)
    assert reader.problem() is None
    await asyncio.to_thread(server.stop)
    await until(lambda: reader.problem() is not None)
    assert f"the queue 'q' cannot be read from Kestrel at {server.address} (" in str(
        reader.problem()
    )
    assert "the next attempt follows after 0.5 s" in str(reader.problem())
    await asyncio.to_thread(server.start)
    (again,) = await take(reader)
    await until(lambda: reader.problem() is None)
    assert again.value == b"a"


@pytest.mark.slow
async def test_failed_host_is_blacklisted(server: KestrelServer, read: Open) -> None:
    """No connection asks it again before the blacklist time is over."""
    server.refusing = True
    began = time.monotonic()
    reader = read([server], open_reads=4, blacklist_time_secs=1)
    await until(lambda: reader.problem() is not None)
    assert "it answered b'SERVER_ERROR'" in str(reader.problem())
    await until(lambda: server.accepted > 4)
    assert time.monotonic() - began >= 1
    server.refusing = False
    server.put("q", b"a")
    assert [message.value for message in await take(reader)] == [b"a"]


@pytest.mark.slow
async def test_silent_host_has_failed(server: KestrelServer, read: Open) -> None:
    """This takes `timeout_secs` in addition to the allowed wait."""
    server.silent = True
    reader = read([server], timeout_secs=0.2)
    await until(lambda: reader.problem() is not None)
    assert f"{server.address} (it does not respond)" in str(reader.problem())
    server.silent = False
    server.put("q", b"a")
    assert [message.value for message in await take(reader)] == [b"a"]


@pytest.mark.slow
async def test_unavailable_host_does_not_block_the_others(
    server: KestrelServer, read: Open
) -> None:
    with KestrelServer() as other:
        server.put("q", b"a")
        other.put("q", b"b")
        reader = read([server, other])
        messages = await take(reader, 2)
        assert {message.value for message in messages} == {b"a", b"b"}
        await asyncio.to_thread(other.stop)
        await until(lambda: reader.problem() is not None)
        assert other.address in str(reader.problem())
        assert server.address not in str(reader.problem())
        server.put("q", b"c")
        reader.ack(next(message.id for message in messages if message.value == b"a"))
        assert [message.value for message in await take(reader)] == [b"c"]


@pytest.mark.slow
async def test_paused_reader_returns_untaken_messages(server: KestrelServer, read: Open) -> None:
    """Taken messages stay open and can be acked. Then reading continues."""
    server.put("q", b"a", b"b")
    reader = read([server], open_reads=2)
    (message,) = await take(reader)
    await until(lambda: len(server.open("q")) == 2)
    reader.pause()
    await until(lambda: server.open("q") == [message.value])
    reader.ack(message.id)
    await until(lambda: not server.open("q"))
    server.put("q", b"c")
    await asyncio.sleep(0.3)  # longer than a poll
    assert len(server.waiting("q")) == 2
    reader.start()
    assert {message.value for message in await take(reader, 2)} == set(server.open("q"))


@pytest.mark.slow
async def test_close_sends_acks_and_returns_the_rest(server: KestrelServer, read: Open) -> None:
    """An ack just before the close is not lost. Otherwise its message would be processed again."""
    server.put("q", b"a", b"b", b"c")
    reader = read([server], open_reads=2)
    messages = await take(reader, 2)
    acked = next(message for message in messages if message.value == b"a")
    reader.ack(acked.id)
    await reader.close()
    await until(lambda: not server.connections)
    assert (sorted(server.waiting("q")), server.open("q")) == ([b"b", b"c"], [])


def test_killed_spout_process_loses_nothing(
    run_topology: RunTopology, server: KestrelServer, topic_prefix: str
) -> None:
    """Each message arrives, and the queue is empty at the end."""
    count = 3000
    server.put(topic_prefix, *(b"%d" % number for number in range(count)))
    settings = {"KSTORM_TEST_QUEUE": server.address}
    with run_topology("kestrel", settings=settings) as engine:
        engine.await_total("messages", "acked", 300)
        assert server.open(topic_prefix)
        engine.worker("messages-0").process.kill()
        engine.until(
            lambda: engine.worker("messages-0").process.starts == 2,
            30,
            "the spout is started again",
        )
        engine.until(
            lambda: not server.waiting(topic_prefix) and not server.open(topic_prefix),
            120,
            "an empty queue",
        )
        assert set(engine.records()) == set(range(count))
