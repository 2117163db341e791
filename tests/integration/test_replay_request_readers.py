"""The contract of a reader of replay requests, for the real reader and the fake.

Tests with the fake are only valid if it fulfils the contract.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, Protocol

import pytest
from confluent_kafka import Producer

from kstorm.dev.servers import EmbeddedKafka
from kstorm.kafka.ports import ReplayRequestReader
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.replay_request_reader import KafkaReplayRequests
from kstorm.testing.kafka.broker import PendingRequests, Topics
from kstorm.testing.kafka.replay_request_reader import FakeReplayRequests
from kstorm.testing.logs import BrokerLogs, TransactionFate
from tests.conftest import Eventually
from tests.integration.engine import make_topics

Pair = tuple[bytes | None, bytes | None]
_MOST = 500


class World(Protocol):
    """A Kafka with a topic of one partition, which may be missing."""

    def create(self) -> None: ...

    def write(self, *pairs: Pair) -> None: ...

    def begin(self) -> "Ending": ...

    def open(self) -> ReplayRequestReader: ...


class Ending(Protocol):
    """A transaction that writes to the topic."""

    def write(self, *pairs: Pair) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...


class Fake:
    def __init__(self) -> None:
        self._topics, self._answers, self._logs = Topics(), PendingRequests(), BrokerLogs()

    def create(self) -> None:
        self._topics.create("orders", 1)

    def write(self, *pairs: Pair) -> None:
        for key, value in pairs:
            self._topics.append("orders", key, value)

    def open(self) -> ReplayRequestReader:
        return FakeReplayRequests(self._topics, self._answers, "orders", self._logs.open_at)

    def begin(self) -> Ending:
        return FakeEnding(self._topics, self._logs)


class FakeEnding:
    """A transaction whose marker reaches the topic when it ends."""

    def __init__(self, topics: Topics, logs: BrokerLogs) -> None:
        self._topics, self._logs = topics, logs
        self._one = logs.begin(self, logs.begin_epoch(self), 0.0)

    def write(self, *pairs: Pair) -> None:
        for key, value in pairs:
            append = partial(self._topics.append, "orders", key, value)
            self._logs.take_part(self._one, ("orders", 0), append)

    def commit(self) -> None:
        self._logs.end(self._one, TransactionFate.COMMITTED)

    def abort(self) -> None:
        self._logs.end(self._one, TransactionFate.ABORTED)


class Real:
    def __init__(self, kafka: EmbeddedKafka, topic: str) -> None:
        self._kafka, self._topic = kafka, topic

    def create(self) -> None:
        make_topics(self._kafka.bootstrap, {self._topic: 1})

    def write(self, *pairs: Pair) -> None:
        producer = Producer({"bootstrap.servers": self._kafka.bootstrap, "log_level": 0})
        for key, value in pairs:
            producer.produce(self._topic, value, key, 0)
        assert producer.flush(30) == 0

    def open(self) -> ReplayRequestReader:
        return KafkaReplayRequests(
            Settings(topology="", bootstrap_servers=self._kafka.bootstrap), self._topic
        )

    def begin(self) -> Ending:
        return RealEnding(self._kafka.bootstrap, self._topic)


class RealEnding:
    """A transaction of a producer of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{id(self)}"}
        )
        self._producer.init_transactions(30)
        self._producer.begin_transaction()

    def write(self, *pairs: Pair) -> None:
        for key, value in pairs:
            self._producer.produce(self._topic, value, key, 0)
        assert self._producer.flush(30) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(30)

    def abort(self) -> None:
        self._producer.abort_transaction(30)


@pytest.fixture(params=["fake", "real"])
def world(request: pytest.FixtureRequest, topic_prefix: str) -> World:
    """The fake and the real Kafka."""
    if request.param == "fake":
        return Fake()
    return Real(request.getfixturevalue("kafka"), f"{topic_prefix}-orders")


@pytest.fixture
def opened(world: World) -> Iterator[Callable[[], ReplayRequestReader]]:
    """A function that opens a reader, which is closed at the end."""
    readers: list[ReplayRequestReader] = []

    def open() -> ReplayRequestReader:
        readers.append(world.open())
        return readers[-1]

    yield open
    for reader in readers:
        reader.close()


def orders(count: int, first: int = 0) -> list[Pair]:
    return [(b"%d" % number, b"order") for number in range(first, first + count)]


def more(reader: ReplayRequestReader, found: list[Pair]) -> list[Pair]:
    """Add the records of one more call."""
    found.extend(reader.read())
    return found


def test_at_end_means_that_all_records_were_read(
    world: World, opened: Callable[[], ReplayRequestReader], eventually: Eventually
) -> None:
    """They are in order, with tombstones and records without keys. No call waits."""
    world.create()
    written = [*orders(3 * _MOST), (b"1", None), (None, b"keyless")]
    world.write(*written)
    reader, found, sizes = opened(), list[Pair](), list[int]()

    def read_some() -> bool:
        some = reader.read()
        found.extend(some)
        sizes.append(len(some))
        assert not reader.at_end or len(found) == len(written), (
            "an order that ended would be carried out"
        )
        return reader.at_end

    assert not reader.at_end
    eventually(read_some, 30.0)
    assert found == written
    assert max(sizes) <= _MOST


@pytest.mark.slow
def test_first_call_only_sends_a_request(
    world: World, opened: Callable[[], ReplayRequestReader], eventually: Eventually
) -> None:
    """It does not wait, so it finds no record and no end."""
    world.create()
    world.write(*orders(1))
    reader = opened()
    assert (list(reader.read()), reader.at_end) == ([], False)
    found: list[Pair] = []
    eventually(lambda: more(reader, found), 30.0)
    assert found == orders(1)


@pytest.mark.slow
def test_empty_topic_is_at_its_end(
    world: World, opened: Callable[[], ReplayRequestReader], eventually: Eventually
) -> None:
    """Later records are read once, and `at_end` stays true."""
    world.create()
    reader, found = opened(), list[Pair]()
    eventually(lambda: more(reader, found) is found and reader.at_end, 30.0)
    assert found == []
    world.write(*orders(2))
    eventually(lambda: len(more(reader, found)) == 2, 30.0)
    assert (found, reader.at_end) == (orders(2), True)
    assert list(reader.read()) == []


def reads_often(
    reader: ReplayRequestReader, found: list[Pair], eventually: Eventually, times: int = 60
) -> None:
    """Reads for longer than a reader needs to reach the end."""
    calls = count()
    eventually(lambda: more(reader, found) is found and next(calls) >= times, 60.0)


@pytest.mark.parametrize("at_opening", [True, False])
def test_open_transaction_is_before_the_end(
    world: World,
    opened: Callable[[], ReplayRequestReader],
    eventually: Eventually,
    at_opening: bool,
) -> None:
    """The end of a request may still be committed. This also holds for an end that is asked for
    later."""
    world.create()
    world.write(*orders(3))
    reader, found = opened(), list[Pair]()
    if not at_opening:
        eventually(lambda: more(reader, found) is found and reader.at_end, 30.0)
    ending = world.begin()
    ending.write((b"1", None))
    if at_opening:
        reader = opened()
    else:
        reader.ask_end()
        assert not reader.at_end
    world.write(*orders(1, 7))
    reads_often(reader, found, eventually)
    assert not reader.at_end, "a request would be carried out twice"
    ending.commit()
    eventually(lambda: more(reader, found) is found and reader.at_end, 30.0)
    assert sorted(found, key=str) == sorted([*orders(3), (b"1", None), *orders(1, 7)], key=str)
    world.write(*orders(1, 8))
    eventually(lambda: orders(1, 8)[0] in more(reader, found), 30.0)
    assert reader.at_end


@pytest.mark.parametrize("at_opening", [True, False])
def test_aborted_transaction_is_before_the_end(
    world: World,
    opened: Callable[[], ReplayRequestReader],
    eventually: Eventually,
    at_opening: bool,
) -> None:
    """The log ends with its records and its marker, and no reader receives them."""
    world.create()
    world.write(*orders(2))
    reader, found = opened(), list[Pair]()
    if not at_opening:
        eventually(lambda: more(reader, found) is found and reader.at_end, 30.0)
    ending = world.begin()
    ending.write((b"1", None), (b"0", None))
    ending.abort()
    if at_opening:
        reader = opened()
    else:
        reader.ask_end()
    eventually(lambda: more(reader, found) is found and reader.at_end, 30.0)
    assert found == orders(2)


@pytest.mark.slow
def test_missing_topic_has_no_error_and_no_end(
    world: World, opened: Callable[[], ReplayRequestReader], eventually: Eventually
) -> None:
    """The reader of the source reports it. The topic is read when it exists."""
    reader, calls = opened(), list[int]()

    def asked_some_times() -> bool:
        calls.append(len(reader.read()))
        return len(calls) >= 30

    eventually(asked_some_times, 30.0)
    assert (set(calls), reader.at_end) == ({0}, False)
    world.create()
    world.write(*orders(1))
    found: list[Pair] = []
    eventually(lambda: more(reader, found), 60.0)
    assert found == orders(1)


@pytest.mark.slow
def test_closed_reader_raises(world: World) -> None:
    world.create()
    reader: Any = world.open()
    reader.close()
    with pytest.raises(RuntimeError, match="closed"):
        reader.read()
