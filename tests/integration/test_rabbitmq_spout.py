"""`RabbitMQSpout` and its reader on a real RabbitMQ: open messages, messages put back, and reports
of an outage."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.errors import ConfigError
from kstorm.queues import RabbitMQConfig, RabbitMQTls
from kstorm.runtime.queues.rabbitmq import RabbitMQReader
from tests.chaos.proxy import Proxy
from tests.integration.certificates import Authority
from tests.integration.engine import running
from tests.integration.queue_messages import take
from tests.integration.rabbitmq_server import RabbitMQServer, find_scripts
from tests.integration.until import until

Open = Callable[..., RabbitMQReader]
RETRY_SECS = 30.0  # the longest delay before a reader with default settings reconnects


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "ours")


@pytest.fixture(scope="module")
def rabbitmq(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[RabbitMQServer]:
    scripts = find_scripts()
    if isinstance(scripts, str):
        pytest.skip(scripts)
    certificate = (authority.sign("rabbitmq"), authority.certificate)
    with RabbitMQServer(scripts, tmp_path_factory.mktemp("rabbitmq"), certificate) as server:
        yield server


@pytest.fixture
def queue(rabbitmq: RabbitMQServer, topic_prefix: str) -> str:
    rabbitmq.declare(topic_prefix)
    return topic_prefix


@pytest.fixture
def proxy(rabbitmq: RabbitMQServer) -> Iterator[Proxy]:
    """A proxy between the reader and RabbitMQ."""
    with Proxy() as started:
        started.target = rabbitmq.port
        yield started


@pytest.fixture
async def read(rabbitmq: RabbitMQServer, queue: str) -> AsyncIterator[Open]:
    """A function that opens started readers of the test's queue, with quick reconnects."""
    async with AsyncExitStack() as stack:

        def open_reader(prefetch: int = 100, **settings: Any) -> RabbitMQReader:
            quick = {"reconnect_initial_delay_ms": 100, "reconnect_delay_max_ms": 400}
            config = RabbitMQConfig(queue, **{"hosts": [rabbitmq.address], **quick, **settings})
            reader = RabbitMQReader(config, prefetch)
            stack.push_async_callback(reader.close)
            reader.start()
            return reader

        yield open_reader


async def ready(rabbitmq: RabbitMQServer, queue: str, number: int) -> None:
    """Wait until this many messages are in the queue and not open."""
    async with asyncio.timeout(20):
        while await asyncio.to_thread(rabbitmq.ready, queue) != number:
            await asyncio.sleep(0.05)


async def test_message_is_open_until_it_is_acked(
    rabbitmq: RabbitMQServer, queue: str, read: Open
) -> None:
    """Then it is removed. Open messages return to the queue when the reader disconnects."""
    await asyncio.to_thread(rabbitmq.publish, queue, b"a", b"b")
    reader = read()
    first, second = await take(reader, 2)
    assert (first.value, second.value) == (b"a", b"b")
    assert await asyncio.to_thread(rabbitmq.ready, queue) == 0
    reader.ack(first.id)
    await reader.close()
    await ready(rabbitmq, queue, 1)
    other = read()
    assert [message.value for message in await take(other)] == [b"b"]


async def test_message_put_back_returns(rabbitmq: RabbitMQServer, queue: str, read: Open) -> None:
    """This is basic.nack with requeue. The message gets another id."""
    await asyncio.to_thread(rabbitmq.publish, queue, b"a")
    reader = read()
    (first,) = await take(reader)
    reader.put_back(first.id)
    (again,) = await take(reader)
    assert (again.value, again.id != first.id) == (b"a", True)


@pytest.mark.slow
async def test_open_messages_are_limited_by_the_prefetch(
    rabbitmq: RabbitMQServer, queue: str, read: Open
) -> None:
    """The rest stays in the queue, for other tasks. An ack makes room for one."""
    await asyncio.to_thread(rabbitmq.publish, queue, *(b"%d" % number for number in range(10)))
    reader = read(prefetch=3)
    messages = await take(reader, 3)
    await ready(rabbitmq, queue, 7)
    assert reader.take() is None
    reader.ack(messages[0].id)
    assert [message.value for message in await take(reader)] == [b"3"]
    await ready(rabbitmq, queue, 6)


@pytest.mark.slow
async def test_ack_for_a_closed_connection_is_ignored(
    rabbitmq: RabbitMQServer, queue: str, read: Open, proxy: Proxy
) -> None:
    """Delivery tag 1 of the new channel is another message. An old ack must not remove it."""
    await asyncio.to_thread(rabbitmq.publish, queue, b"a", b"b")
    reader = read(hosts=[proxy.address])
    old = await take(reader, 2)
    await asyncio.to_thread(proxy.stop)
    await until(lambda: reader.problem() is not None)
    with Proxy(proxy.port) as healed:
        healed.target = rabbitmq.port
        new = await take(reader, 2)
        assert {message.value for message in new} == {b"a", b"b"}
        for message in old:
            reader.ack(message.id)
            reader.put_back(message.id)
        assert reader.problem() is None
        await reader.close()
    await ready(rabbitmq, queue, 2)


@pytest.mark.slow
async def test_untaken_message_of_a_closed_connection_is_dropped(
    rabbitmq: RabbitMQServer, queue: str, read: Open, proxy: Proxy
) -> None:
    """RabbitMQ delivers it on the next connection, or to another task."""
    await asyncio.to_thread(rabbitmq.publish, queue, b"a", b"b")
    reader = read(hosts=[proxy.address])
    await take(reader)
    await ready(rabbitmq, queue, 0)
    await asyncio.to_thread(proxy.stop)
    await until(lambda: reader.problem() is not None)
    assert reader.take() is None
    await ready(rabbitmq, queue, 2)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_rabbitmq_restart_loses_nothing(
    rabbitmq: RabbitMQServer, queue: str, read: Open, end: str
) -> None:
    """Meanwhile the readiness check reports it.

    Acked messages do not return, unless RabbitMQ had no time to write the acks.
    """
    await asyncio.to_thread(rabbitmq.publish, queue, *(b"%d" % number for number in range(25)))
    reader = read(prefetch=20)
    messages = await take(reader, 20)
    for message in messages[:5]:
        reader.ack(message.id)
    await take(reader, 5)  # so RabbitMQ has the acks
    await asyncio.to_thread(getattr(rabbitmq, end))
    await until(lambda: reader.problem() is not None)
    problem = str(reader.problem())
    assert (
        f"the queue {queue!r} cannot be read from RabbitMQ at {rabbitmq.address}, virtual host '/'"
        in problem
    )
    await asyncio.to_thread(rabbitmq.start)
    again: set[int] = set()

    def all_there() -> bool:
        while (message := reader.take()) is not None:
            again.add(int(message.value))
            if int(message.value) < 5:
                reader.ack(message.id)  # makes room for the awaited messages
        return again >= set(range(5, 25))

    await until(all_there)
    assert end == "kill" or min(again) == 5
    assert reader.problem() is None


@pytest.mark.slow
async def test_dead_connection_is_closed_by_its_heartbeat(
    rabbitmq: RabbitMQServer, queue: str, read: Open
) -> None:
    """A paused node sends nothing, like a broken network."""
    await asyncio.to_thread(rabbitmq.publish, queue, b"a")
    reader = read(heartbeat_secs=1)
    await take(reader)
    rabbitmq.pause()
    try:
        await until(lambda: "AMQPHeartbeatTimeout" in str(reader.problem()))
    finally:
        rabbitmq.resume()
    assert [message.value for message in await take(reader)] == [b"a"]


@pytest.mark.slow
async def test_next_host_is_tried_if_one_is_unavailable(
    rabbitmq: RabbitMQServer, queue: str, read: Open
) -> None:
    await asyncio.to_thread(rabbitmq.publish, queue, b"a")
    reader = read(hosts=["127.0.0.1:1", rabbitmq.address])
    assert [message.value for message in await take(reader)] == [b"a"]


@pytest.mark.slow
async def test_missing_queue_is_named_and_read_later(
    rabbitmq: RabbitMQServer, queue: str, read: Open
) -> None:
    """It never existed, or was deleted while it was read."""
    reader = read()
    await until(lambda: reader.connections)
    await asyncio.to_thread(rabbitmq.delete, queue)
    await until(lambda: "NOT_FOUND" in str(reader.problem()))
    assert f"no queue '{queue}'" in str(reader.problem())
    await asyncio.to_thread(rabbitmq.declare, queue)
    await asyncio.to_thread(rabbitmq.publish, queue, b"a")
    assert [message.value for message in await take(reader)] == [b"a"]
    assert reader.problem() is None


@pytest.mark.slow
async def test_rejected_login_names_the_user_but_not_the_password(
    rabbitmq: RabbitMQServer,
    queue: str,
    read: Open,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The password's file is read for each attempt, so a correction needs no restart."""
    caplog.set_level("DEBUG")
    file = tmp_path / "password"
    reader = read(password_file=str(file))
    await until(lambda: "which cannot be read" in str(reader.problem()))
    assert f"password_file is {str(file)!r}" in str(reader.problem())
    file.write_text("very-secret\n")
    await until(lambda: "ACCESS_REFUSED" in str(reader.problem()))
    assert "as user 'guest'" in str(reader.problem())
    assert "very-secret" not in str(reader.problem()) + caplog.text + repr(reader.config)
    file.write_text("guest\n")
    await asyncio.to_thread(rabbitmq.publish, queue, b"a")
    assert [message.value for message in await take(reader)] == [b"a"]


@pytest.mark.slow
async def test_tls_requires_a_trusted_certificate(
    rabbitmq: RabbitMQServer, queue: str, read: Open, authority: Authority, tmp_path: Path
) -> None:
    """With another authority the problem names the untrusted certificate."""
    await asyncio.to_thread(rabbitmq.publish, queue, b"a")
    hosts = [f"localhost:{rabbitmq.tls_port}"]
    stranger = Authority(tmp_path, "stranger")
    wary = read(hosts=hosts, tls=RabbitMQTls(ca_file=str(stranger.certificate)))
    await until(lambda: "CERTIFICATE_VERIFY_FAILED" in str(wary.problem()))
    own = str(authority.sign("client"))
    reader = read(
        hosts=hosts, tls=RabbitMQTls(ca_file=str(authority.certificate), certificate_file=own)
    )
    assert [message.value for message in await take(reader)] == [b"a"]
    with pytest.raises(
        ConfigError, match="ca_file is '/nowhere', which cannot be used: No such file"
    ):
        read(tls=RabbitMQTls(ca_file="/nowhere"))


@pytest.mark.slow
async def test_paused_reader_returns_untaken_messages(
    rabbitmq: RabbitMQServer, queue: str, read: Open
) -> None:
    """Taken messages stay open and can be acked. Then reading continues."""
    await asyncio.to_thread(rabbitmq.publish, queue, b"a", b"b", b"c")
    reader = read()
    (first,) = await take(reader)
    await ready(rabbitmq, queue, 0)
    reader.pause()
    await ready(rabbitmq, queue, 2)
    reader.ack(first.id)
    await asyncio.to_thread(rabbitmq.publish, queue, b"d")
    await ready(rabbitmq, queue, 3)
    reader.start()
    assert sorted(message.value for message in await take(reader, 3)) == [b"b", b"c", b"d"]


@pytest.mark.slow
def test_killed_spout_and_restarted_rabbitmq_lose_nothing(
    rabbitmq: RabbitMQServer,
    queue: str,
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each message arrives, and the queue is empty at the end.

    While RabbitMQ is away, the spout's service is not ready and reports the reason.
    """
    count = 6000
    rabbitmq.publish(queue, *(b"%d" % number for number in range(count)))
    settings = {"KSTORM_TEST_QUEUE": rabbitmq.address}
    with running(
        "rabbitmq", queue, kafka, zookeeper, tmp_path, monkeypatch, settings=settings
    ) as engine:
        spout = engine.worker("messages-0")
        engine.await_total("messages", "acked", 300)
        spout.process.kill()
        assert rabbitmq.ready(queue) > 0
        engine.await_total("messages", "acked", 300)
        assert spout.process.starts == 2
        rabbitmq.stop()
        engine.until(
            lambda: "cannot be read from RabbitMQ" in str((spout.status() or {}).get("not_ready")),
            30,
            "a word",
        )
        rabbitmq.start()
        engine.until(
            lambda: not rabbitmq.ready(queue) and not engine.total("messages", "pending"),
            120,
            "it is done",
        )
        assert set(engine.records()) == set(range(count))
        engine.until(
            lambda: not (spout.status() or {"not_ready": "no answer"})["not_ready"],
            RETRY_SECS + 20,
            "readiness",
        )
        engine.processes.stop()
    assert rabbitmq.ready(queue) == 0
