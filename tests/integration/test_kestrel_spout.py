"""`KestrelSpout` and its reader on Kestrel servers: what is open, what is put back, which hosts are left alone."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from kstorm.local.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.queues import HostInfo, KestrelConfig, QueueMessageId
from kstorm.runtime.queues.kestrel import KestrelReader
from tests.integration.engine import running
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
    """Open readers of the queue `q`, started, with a blacklist of half a second."""
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


async def test_message_is_open_until_acked(server: KestrelServer, read: Open) -> None:
    """Then it is gone, and the connection opens the next one."""
    server.put("q", b"a\r\nEND\r\n", b"b")
    reader = read([server])
    (first,) = await take(reader)
    assert first.value == b"a\r\nEND\r\n"
    assert (server.open("q"), server.waiting("q")) == ([first.value], [b"b"])
    reader.ack(first.id)
    (second,) = await take(reader)
    assert (second.value, server.open("q"), server.waiting("q")) == (b"b", [b"b"], [])
    assert second.id != first.id


async def test_returned_message_is_delivered_again_at_once(
    server: KestrelServer, read: Open
) -> None:
    """At the head of the queue, as Kestrel does on an abort; under another id."""
    server.put("q", b"a", b"b")
    reader = read([server])
    (first,) = await take(reader)
    reader.put_back(first.id)
    (again,) = await take(reader)
    assert (again.value, again.id != first.id) == (b"a", True)


async def test_as_many_messages_are_open_as_there_are_connections(
    server: KestrelServer, read: Open
) -> None:
    """One open read a connection: three of them have three open, and acks may come in any order."""
    server.put("q", *(b"%d" % number for number in range(10)))
    reader = read([server], open_reads=3)
    messages = await take(reader, 3)
    assert sorted(server.open("q")) == [b"0", b"1", b"2"]
    assert (reader.connections, server.connections) == (3, 3)
    for message in reversed(messages):
        reader.ack(message.id)
    assert {message.value for message in await take(reader, 3)} == {b"3", b"4", b"5"}


async def test_ack_after_the_connection_ended_is_ignored(server: KestrelServer, read: Open) -> None:
    """The queue has it again, and it comes again; an ack of the old opening must not remove it."""
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


async def test_message_of_an_ended_connection_is_not_emitted(
    server: KestrelServer, read: Open
) -> None:
    """It is in the queue again; to hand it out would be to process it twice for nothing."""
    server.put("q", b"a")
    reader = read([server])
    await until(lambda: server.open("q") == [b"a"])
    await asyncio.to_thread(server.stop)
    await until(lambda: reader.connections == 0)
    assert reader.take() is None
    assert server.waiting("q") == [b"a"]


async def test_reading_continues_after_a_server_restart(server: KestrelServer, read: Open) -> None:
    """Meanwhile the problem names it, for the readiness check; then it is gone, and no message is."""
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


async def test_a_host_that_fails_is_left_alone_for_a_while(
    server: KestrelServer, read: Open
) -> None:
    """It is asked again no sooner than the blacklist's time is over, by none of the connections to it."""
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


async def test_a_host_that_does_not_answer_has_failed(server: KestrelServer, read: Open) -> None:
    """After `timeout_secs`, and what it was allowed to wait."""
    server.silent = True
    reader = read([server], timeout_secs=0.2)
    await until(lambda: reader.problem() is not None)
    assert f"{server.address} (it does not respond)" in str(reader.problem())
    server.silent = False
    server.put("q", b"a")
    assert [message.value for message in await take(reader)] == [b"a"]


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


async def test_paused_reader_returns_messages_that_were_not_taken(
    server: KestrelServer, read: Open
) -> None:
    """What was taken stays open, and can be acked; then reading continues."""
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


async def test_closing_sends_the_acks_and_gives_back_the_rest(
    server: KestrelServer, read: Open
) -> None:
    """An ack that was said in the very moment before is not lost, or the message would be processed again."""
    server.put("q", b"a", b"b", b"c")
    reader = read([server], open_reads=2)
    messages = await take(reader, 2)
    acked = next(message for message in messages if message.value == b"a")
    reader.ack(acked.id)
    await reader.close()
    await until(lambda: not server.connections)
    assert (sorted(server.waiting("q")), server.open("q")) == ([b"b", b"c"], [])


def test_nothing_is_lost_when_the_spouts_process_is_killed(
    server: KestrelServer,
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A topology of services, its spout killed by SIGKILL among the messages: each one arrives, and none is left."""
    count = 3000
    server.put(topic_prefix, *(b"%d" % number for number in range(count)))
    settings = {"KSTORM_TEST_QUEUE": server.address}
    with running(
        "kestrel", topic_prefix, kafka, zookeeper, tmp_path, monkeypatch, settings=settings
    ) as engine:
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
