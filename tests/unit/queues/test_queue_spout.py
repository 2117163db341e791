"""What holds of both queue spouts: the queue has a message until its whole tree is complete."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from kstorm.errors import BrokerError, FailedException, KstormError
from kstorm.kafka.scheme import Values
from kstorm.queues import QueueSpout, RabbitMQConfig, RabbitMQSpout
from kstorm.testing import LocalCluster
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Config,
    CustomStreamGrouping,
    Fields,
    OutputFieldsDeclarer,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
)
from tests.unit.queues.memory_queue import MemoryQueue, spouts

Make = Callable[..., LocalCluster]


class Hold(Bolt):
    """Holds every tuple until the test acks or fails it."""

    def prepare(self, *arguments: Any) -> None:
        super().prepare(*arguments)
        self.held: list[Tuple] = []

    def execute(self, tuple: Tuple) -> None:
        self.held.append(tuple)


class FailOnce(BasicBolt):
    """Fails each value the first time that it sees it."""

    seen: set[str]

    def prepare(self, *arguments: Any) -> None:
        super().prepare(*arguments)
        self.seen = set()

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("line")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        if tuple[0] not in self.seen:
            self.seen.add(tuple[0])
            raise FailedException("the first time")
        collector.emit(tuple.values)


class Words:
    """A multi-scheme: one tuple a word. It cannot read b'!', makes of b'?' a tuple that nobody declared, and of b'#' none."""

    output_fields = Fields("word")

    def deserialize(self, value: bytes) -> Iterable[Values]:
        if value == b"!":
            raise ValueError("no words")
        if value == b"#":
            return [("fine",), None]  # type: ignore[list-item]
        return [("too", "many")] if value == b"?" else [(word,) for word in value.decode().split()]


def topology(spout: QueueSpout, bolt: Bolt | BasicBolt, **settings: Any) -> Topology:
    builder = TopologyBuilder("t", Config(**settings))
    builder.set_spout("lines", spout)
    builder.set_bolt("bolt", bolt).shuffle_grouping("lines")
    return builder.build()


def words_of(
    queue: MemoryQueue, local_cluster: Make, bolt: Bolt | BasicBolt, **settings: Any
) -> LocalCluster:
    spout = RabbitMQSpout(RabbitMQConfig("words", scheme=Words()))
    return local_cluster(topology(spout, bolt, **settings), resources=queue.resources)


def held_by(cluster: LocalCluster) -> list[Tuple]:
    bolt = cluster.instance("bolt")
    assert isinstance(bolt, Hold)
    return bolt.held


def release(cluster: LocalCluster, tuple: Tuple, verdict: str) -> None:
    """Has the bolt ack or fail a tuple that it holds, and all that follows from it happen."""
    bolt = cluster.instance("bolt")
    assert isinstance(bolt, Hold)
    bolt.held.remove(tuple)
    getattr(bolt.collector, verdict)(tuple)
    cluster.wake()
    cluster.advance_time(1)


@pytest.mark.parametrize("spout", spouts(), ids=["rabbitmq", "kestrel"])
def test_message_is_acked_when_its_tree_is_complete(spout: QueueSpout, local_cluster: Make) -> None:
    """While the bolt holds the tuple, the message is open: neither done nor anybody else's."""
    queue = MemoryQueue(b"a b")
    cluster = local_cluster(topology(spout, Hold()), resources=queue.resources)
    cluster.run_until_idle()
    (tuple,) = held_by(cluster)
    assert tuple["str"] == "a b"
    assert (queue.open, queue.done) == ([b"a b"], [])
    release(cluster, tuple, "ack")
    assert (queue.open, queue.done, list(queue.waiting)) == ([], [b"a b"], [])


@pytest.mark.parametrize("spout", spouts(), ids=["rabbitmq", "kestrel"])
def test_failed_message_is_returned_and_redelivered(spout: QueueSpout, local_cluster: Make) -> None:
    """Each fails once, and each is done in the end."""
    queue = MemoryQueue(b"a", b"b", b"c")
    cluster = local_cluster(topology(spout, FailOnce()), resources=queue.resources)
    cluster.run_until_idle()
    assert sorted(queue.done) == [b"a", b"b", b"c"]
    assert len(cluster.emitted("lines")) == 6
    assert len(cluster.failed("lines")) == 3


@pytest.mark.parametrize("spout", spouts(), ids=["rabbitmq", "kestrel"])
def test_timed_out_message_is_returned(spout: QueueSpout, local_cluster: Make) -> None:
    """The bolt never says anything: after 1 to 1.5 message timeouts the queue has it again, and it is emitted again."""
    queue = MemoryQueue(b"a")
    cluster = local_cluster(topology(spout, Hold()), resources=queue.resources)
    cluster.advance_time(46)
    assert len(cluster.emitted("lines")) == 2
    assert queue.done == []


@pytest.mark.parametrize("kstorm_seed", range(5))
@pytest.mark.parametrize("spout", spouts(), ids=["rabbitmq", "kestrel"])
def test_spout_crash_loses_no_message(
    spout: QueueSpout, local_cluster: Make, kstorm_seed: int
) -> None:
    """Its connection dies with it: the queue has back what was open, and the next life emits it."""
    messages = [b"%d" % number for number in range(12)]
    queue = MemoryQueue(*messages)
    cluster = local_cluster(topology(spout, FailOnce()), resources=queue.resources)
    for _ in range(10 + 15 * kstorm_seed):
        cluster.step()
    cluster.crash("lines")
    cluster.run_until_idle()
    assert set(queue.done) == set(messages)
    assert (queue.open, list(queue.waiting)) == ([], [])
    assert {value for (value,) in cluster.emitted("bolt")} == {
        message.decode() for message in messages
    }


def test_a_message_of_several_tuples_leaves_with_the_last_of_their_trees(
    local_cluster: Make,
) -> None:
    queue = MemoryQueue(b"a b c")
    cluster = words_of(queue, local_cluster, Hold())
    cluster.run_until_idle()
    for _ in range(2):
        release(cluster, held_by(cluster)[0], "ack")
        assert queue.done == []
    release(cluster, held_by(cluster)[0], "ack")
    assert queue.done == [b"a b c"]


def test_message_with_a_failed_tuple_is_returned_once(local_cluster: Make) -> None:
    """What is heard of its other trees then is of no account, neither for the old attempt nor for the new one."""
    queue = MemoryQueue(b"a b c")
    cluster = words_of(queue, local_cluster, Hold())
    cluster.run_until_idle()
    first, second, third = held_by(cluster)
    release(cluster, first, "fail")
    assert [tuple["word"] for tuple in held_by(cluster)].count("a") == 1
    assert len(queue.open) == 1
    release(cluster, second, "fail")
    release(cluster, third, "ack")
    assert (queue.done, len(cluster.emitted("lines"))) == ([], 6)
    for tuple in list(held_by(cluster)):
        release(cluster, tuple, "ack")
    assert queue.done == [b"a b c"]
    assert cluster.errors == []  # the queue knows of nothing that is acked or put back twice


def test_a_message_without_tuples_is_done_at_once(local_cluster: Make) -> None:
    queue = MemoryQueue(b" ")
    words_of(queue, local_cluster, Hold()).run_until_idle()
    assert queue.done == [b" "]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"!", "a message of the queue 'words' cannot be deserialized: ValueError: no words"),
        (b"?", "a message of the queue 'words' cannot be emitted: "),
        (
            b"#",
            "a message of the queue 'words' cannot be emitted: its scheme returned None in place of a tuple's values",
        ),
    ],
)
def test_unemittable_message_is_acked_after_its_dead_letter_is_stored(
    value: bytes, reason: str, local_cluster: Make
) -> None:
    """With its bytes; what comes after it is processed."""
    queue = MemoryQueue(value, b"a")
    cluster = words_of(queue, local_cluster, Hold())
    while cluster.step():
        assert value not in queue.done or cluster.dead_letters
    (letter,) = cluster.dead_letters
    assert letter.reason.startswith(reason)
    assert letter.value == value
    assert letter.kind == ("undecodable" if value == b"!" else "refused")
    assert letter.error is not None
    assert (letter.error.component, letter.error.task) == (letter.component, letter.task)
    assert queue.done == [value]
    assert [tuple["word"] for tuple in held_by(cluster)] == ["a"]


class Picky(CustomStreamGrouping):
    """Raises on one value."""

    def prepare(
        self, context: TopologyContext, component: str, stream: str, target_tasks: Sequence[int]
    ) -> None:
        self.targets = target_tasks

    def choose_tasks(self, task: int, values: Sequence[Any]) -> Sequence[int]:
        if values[0] == "raise":
            raise LookupError("no task for it")
        return self.targets


class Take(BasicBolt):
    """Takes everything."""

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Does nothing."""


@pytest.mark.parametrize("value", [b"raise", b"fine raise fine"])
def test_a_message_on_which_a_grouping_raises_is_a_dead_letter(
    value: bytes, local_cluster: Make
) -> None:
    """None of its tuples is emitted, it does not stay open for ever, and what comes after it is processed."""
    queue = MemoryQueue(b"a", value, b"b")
    builder = TopologyBuilder("t")
    builder.set_spout("lines", RabbitMQSpout(RabbitMQConfig("words", scheme=Words())))
    builder.set_bolt("bolt", Take()).shuffle_grouping("lines")
    builder.set_bolt("picked", Take()).custom_grouping("lines", Picky())
    cluster = local_cluster(builder.build(), resources=queue.resources)
    cluster.run_until_idle()
    (letter,) = cluster.dead_letters
    assert "cannot be emitted: Picky.choose_tasks raised LookupError" in letter.reason
    assert (letter.value, sorted(queue.done), queue.open) == (
        value,
        sorted([b"a", value, b"b"]),
        [],
    )
    assert {word for (word,) in cluster.emitted("lines")} == {"a", "b"}
    assert cluster.errors == []


def test_open_messages_are_limited(local_cluster: Make) -> None:
    """Two trees are allowed: the rest waits in the reader or in the queue."""
    queue = MemoryQueue(*(b"%d" % number for number in range(9)))
    cluster = words_of(queue, local_cluster, Hold(), topology_max_spout_pending=2)
    cluster.run_until_idle()
    assert [tuple["word"] for tuple in held_by(cluster)] == ["0", "1"]
    release(cluster, held_by(cluster)[0], "ack")
    assert [tuple["word"] for tuple in held_by(cluster)] == ["1", "2"]


def test_the_readers_limit_is_the_pending_limit(local_cluster: Make) -> None:
    """RabbitMQ learns how many messages to send ahead, Kestrel's reader how many connections to make to each host."""
    queue = MemoryQueue()
    for spout in spouts():
        local_cluster(
            topology(spout, Hold(), topology_max_spout_pending=7), resources=queue.resources
        )
    rabbit, kestrel = queue.opened_with
    assert isinstance(rabbit, tuple)
    assert isinstance(kestrel, tuple)
    assert rabbit[1] == 7
    assert (kestrel[1], kestrel[2], kestrel[3]) == ("lines", [("localhost", 22133)], 7)


def test_without_ackers_messages_are_acked_on_emit(local_cluster: Make) -> None:
    """Best effort, as in Storm."""
    queue = MemoryQueue(b"a b")
    words_of(queue, local_cluster, Hold(), topology_acker_executors=0).run_until_idle()
    assert queue.done == [b"a b"]


def test_deactivated_spout_returns_fetched_messages_and_closed_spout_all() -> None:
    """A task that is moved lets its trees finish, while others may have what it only had fetched ahead."""
    queue = MemoryQueue(b"a", b"b", b"c")
    spout = RabbitMQSpout(RabbitMQConfig("words", scheme=Words()))
    wired = topology(spout, Hold(), topology_max_spout_pending=1)
    with LocalCluster(wired, resources=queue.resources) as cluster:
        cluster.run_until_idle()
        assert sorted(queue.open) == [b"a", b"b", b"c"]
        running: Any = cluster.instance("lines")
        running.deactivate()
        assert queue.open == [b"a"]
        running.activate()
        assert sorted(queue.open) == [b"a", b"b", b"c"]
    assert queue.readers[0].closed
    assert (queue.open, queue.done) == ([], [])


def test_a_problem_is_shown_to_the_readiness_check_and_reported_once(local_cluster: Make) -> None:
    """It is not repeated at every call, and a new one after it is gone is reported again."""
    queue = MemoryQueue()
    cluster = words_of(queue, local_cluster, Hold())
    cluster.run_until_idle()
    spout: Any = cluster.instance("lines")
    assert spout.problem() is None
    assert spout.metrics() == {"pending": 0, "connections": 1}
    for _ in range(2):
        queue.readers[0].failing = BrokerError("the queue is away")
        for _ in range(3):
            spout.next_tuple()
        assert str(spout.problem()) == "the queue is away"
        queue.readers[0].failing = None
        spout.next_tuple()
    assert [str(error.error) for error in cluster.errors] == ["the queue is away"] * 2


def test_missing_queue_clients_are_reported(local_cluster: Make) -> None:
    with pytest.raises(
        KstormError, match="'lines' reads a queue, but was given no clients for queues: run it in a"
    ):
        local_cluster(topology(spouts()[0], Hold()))
