"""Replay requests under exactly once: the emit and the end of the request are in one epoch."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import patch

import pytest

from kstorm.core.dead_letters import DeadLetter, key_of
from kstorm.kafka import KafkaBolt, KafkaSpout
from kstorm.kafka.replays import SpoutReplays
from kstorm.testing import LocalCluster
from kstorm.testing.kafka import FakeKafka
from kstorm.testing.kafka.replay_request_reader import FakeReplayRequests
from kstorm.testing.placement import Heir
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Config,
    CustomStreamGrouping,
    Fields,
    OutputFieldsDeclarer,
    Topology,
    TopologyBuilder,
    Tuple,
)
from kstorm.topology.config import AT_LEAST_ONCE, EXACTLY_ONCE
from tests.unit.testing.test_replays import events, last, order, out, run_until_dead, source

LINES = [b"good 0", b"\xff 1", b"good 2", b"\xff 3"]
SEEDS = range(6)
MOMENTS = [
    pytest.param(range(0, 60, 5), id="some"),
    pytest.param(range(0, 240, 8), marks=pytest.mark.slow, id="all"),
]


class Lines:
    """A multi-scheme that cannot read some messages until the test sets `mended`."""

    output_fields = Fields("str")
    mended = False

    def deserialize(self, value: bytes) -> list[list[Any]] | None:
        """Returns a tuple per line. An empty message has none."""
        text = value.decode(errors="replace" if Lines.mended else "strict")
        return [[line] for line in text.splitlines()] or None


class Upper(BasicBolt):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("key", "message")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit((None, "".join(tuple["str"]).upper()))


@pytest.fixture(autouse=True)
def broken() -> Iterator[None]:
    Lines.mended = False
    yield
    Lines.mended = False


def exact(tasks: int = 1, scheme: object | None = None, **config: Any) -> Topology:
    builder = TopologyBuilder("t", Config(topology_processing_guarantee=EXACTLY_ONCE, **config))
    builder.set_spout("lines", KafkaSpout(source(scheme=scheme or Lines())), tasks)
    builder.set_bolt("upper", Upper(), 2).shuffle_grouping("lines")
    builder.set_bolt("sink", KafkaBolt().with_topic_selector("out")).shuffle_grouping("upper")
    return builder.build()


def produced(*lines: bytes) -> FakeKafka:
    kafka = FakeKafka({"in": 2, "out": 1})
    for number, line in enumerate(lines):
        kafka.produce("in", line, partition=number % 2)
    return kafka


def expect_done(kafka: FakeKafka, cluster: LocalCluster) -> None:
    """Asserts that each message is in the sink once, and that nothing is left of its replay."""
    assert out(kafka) == ["GOOD 0", "GOOD 2", "\ufffd 1", "\ufffd 3"]
    assert last(kafka, "t.__dead_letters") == {b"in/1/0/lines": None, b"in/1/1/lines": None}
    assert last(kafka, "t.__orders") == {b"in/1/0/lines": None, b"in/1/1/lines": None}
    assert sorted((event.verb, event.what, event.outcome) for event in events(kafka)) == [
        ("replay", "0 (in/1/0)", "done"),
        ("replay", "1 (in/1/1)", "done"),
    ]
    assert (cluster.pending, cluster.unsettled, len(cluster.dead_letters)) == (0, 0, 2)


@pytest.mark.parametrize("ackers", [0, 1])
@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_mended_message_is_replayed_in_place(seed: int, tasks: int, ackers: int) -> None:
    kafka = produced(*LINES)
    with kafka.cluster(exact(tasks, topology_acker_executors=ackers), seed) as cluster:
        dead = run_until_dead(cluster)
        Lines.mended = True
        order(kafka, dead)
        cluster.advance_time(5)
        expect_done(kafka, cluster)
        if ackers:
            attempts = Counter(id.attempt for id in cluster.acked("lines"))
            assert attempts == {1: 2, 2: 2}


def test_edited_message_is_replayed_in_place() -> None:
    kafka = produced(*LINES)
    with kafka.cluster(exact()) as cluster:
        first, second = run_until_dead(cluster)
        order(kafka, [_edited(first, b"one\ntwo"), _edited(second, b"")])
        cluster.advance_time(5)
        assert out(kafka) == ["GOOD 0", "GOOD 2", "ONE", "TWO"]
        assert last(kafka, "t.__dead_letters") == {b"in/1/0/lines": None, b"in/1/1/lines": None}
        assert [event.outcome for event in events(kafka)] == ["done", "done"]


def _edited(letter: DeadLetter, value: bytes) -> DeadLetter:
    return DeadLetter(
        topology="t",
        component="lines",
        task=letter.task,
        reason="",
        topic=letter.topic,
        partition=letter.partition,
        offset=letter.offset,
        value=value,
        attempts=letter.attempts,
        replays=letter.replays,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_message_that_cannot_be_read_again_gets_a_new_letter(seed: int) -> None:
    """It counts another attempt and replay. The event and the end of the request come with it."""
    kafka = produced(*LINES)
    with kafka.cluster(exact(), seed) as cluster:
        dead = run_until_dead(cluster)
        order(kafka, dead)
        while not events(kafka):
            cluster.step() or cluster.advance_time(0.1)
        again = [letter for letter in cluster.dead_letters if letter.replays]
        assert again != []
        cluster.advance_time(5)
        again = [letter for letter in cluster.dead_letters if letter.replays]
        assert sorted((one.offset, one.attempts, one.replays) for one in again) == [
            (0, 2, 1),
            (1, 2, 1),
        ]
        assert {key_of(one, "") for one in again} == {key_of(one, "") for one in dead}
        assert {event.outcome.partition(":")[0] for event in events(kafka)} == {"failed again"}
        assert set(last(kafka, "t.__orders").values()) == {None}
        assert last(kafka, "t.__dead_letters") == {}
        Lines.mended = True
        order(kafka, again)
        cluster.advance_time(5)
        assert out(kafka) == ["GOOD 0", "GOOD 2", "\ufffd 1", "\ufffd 3"]


def begin_replay(kafka: FakeKafka, cluster: LocalCluster, steps: int) -> None:
    """Requests replays of the dead messages, which can be read now, and takes some steps."""
    dead = run_until_dead(cluster)
    Lines.mended = True
    order(kafka, dead)
    cluster.advance_time(0.3, run=False)
    for _ in range(steps):
        cluster.step()


def crash_at(victim: str, moment: int) -> None:
    Lines.mended = False
    kafka = produced(*LINES)
    with kafka.cluster(exact(2), moment) as cluster:
        begin_replay(kafka, cluster, moment)
        cluster.crash(victim)
        cluster.advance_time(120)
        expect_done(kafka, cluster)


@pytest.mark.parametrize("victim", ["lines", "upper", "acker"])
@pytest.mark.parametrize("moments", MOMENTS)
def test_crash_repeats_nothing(victim: str, moments: range) -> None:
    """The process dies at any step between the request and its end."""
    for moment in moments:
        crash_at(victim, moment)


@pytest.mark.parametrize("heir", ["stranger", "namesake", "others"])
@pytest.mark.parametrize("moments", MOMENTS)
def test_new_owner_repeats_nothing_of_a_zombie(heir: Heir, moments: range) -> None:
    """The zombie's epoch may still be committed while the new owner reads the requests."""
    for moment in moments:
        kafka = produced(*LINES)
        with kafka.cluster(exact(2), moment) as cluster:
            begin_replay(kafka, cluster, moment)
            cluster.pause("lines", heir=heir, sleeps=moment % 2 == 0)
            cluster.advance_time(20)
            cluster.bury()
            cluster.advance_time(120)
            expect_done(kafka, cluster)
        Lines.mended = False


@pytest.mark.parametrize("seed", range(20))
def test_partitions_that_move_repeat_nothing(seed: int) -> None:
    kafka = produced(*LINES)
    with kafka.cluster(exact(2), seed, at_once=seed % 2 == 0) as cluster:
        dead = run_until_dead(cluster)
        Lines.mended = True
        order(kafka, dead)
        cluster.advance_time(0.3, run=False)
        for executors in (2, 1, 2):
            for _ in range(seed * 2):
                cluster.step()
            cluster.scale("lines", executors)
        cluster.advance_time(60)
        expect_done(kafka, cluster)


def hand_over_before_the_marker(heir: Heir) -> None:
    """The spout dies when its epoch is committed, but the requests' partition does not know that
    yet."""
    kafka, marks = produced(*LINES), list[Callable[[], object]]()
    with kafka.cluster(exact()) as cluster:
        dead = run_until_dead(cluster)
        logs = cluster.processes("lines")[0].world.logs
        bring = logs.bring

        def hold(mark: Any) -> None:
            if mark.args[1] == ("t.__orders", 0):
                marks.append(mark)
            else:
                bring(mark)

        logs.bring = hold
        Lines.mended = True
        order(kafka, dead)
        while not marks:
            cluster.step() or cluster.advance_time(0.3, run=False)
        logs.bring = bring
        cluster.pause("lines", heir=heir)
        kafka.produce("in", b"good 4", partition=0)
        for _ in range(10):
            cluster.advance_time(1)
        assert "GOOD 4" in out(kafka), "the new owner works"
        for mark in marks:
            mark()
        cluster.bury()
        cluster.advance_time(60)
        assert Counter(out(kafka)) == dict.fromkeys(
            ["GOOD 0", "GOOD 2", "GOOD 4", "\ufffd 1", "\ufffd 3"], 1
        )
        assert set(last(kafka, "t.__orders").values()) == {None}


def test_new_owner_waits_for_the_ends_of_requests() -> None:
    hand_over_before_the_marker("stranger")


def test_hand_over_without_that_wait_repeats_messages() -> None:
    """The end of the requests must include open transactions."""

    def ask_end(self: FakeReplayRequests) -> None:
        self.at_end, self._waits_for = False, []

    with patch.object(FakeReplayRequests, "ask_end", ask_end), pytest.raises(AssertionError):
        hand_over_before_the_marker("stranger")


@pytest.mark.parametrize(("guarantee", "asks"), [(EXACTLY_ONCE, True), (AT_LEAST_ONCE, False)])
def test_only_exactly_once_asks_for_the_end_again(guarantee: str, asks: bool) -> None:
    """Without transactions, a partition's new owner has no open end of a request to wait for."""
    builder = TopologyBuilder("t", Config(topology_processing_guarantee=guarantee))
    builder.set_spout("lines", KafkaSpout(source(scheme=Lines())))
    builder.set_bolt("upper", Upper()).shuffle_grouping("lines")
    ask_end, asked = FakeReplayRequests.ask_end, list[FakeReplayRequests]()

    def count(self: FakeReplayRequests) -> None:
        asked.append(self)
        ask_end(self)

    with (
        patch.object(FakeReplayRequests, "ask_end", count),
        produced(*LINES).cluster(builder.build()) as cluster,
    ):
        cluster.advance_time(5)
    assert (len(asked) > len({id(reader) for reader in asked})) is asks


def test_end_in_a_later_epoch_repeats_messages() -> None:
    """This is a crash between two epochs."""
    init = SpoutReplays.__init__

    def separate(self: SpoutReplays, *args: Any, **more: Any) -> None:
        init(self, *args, **{**more, "in_epochs": False})

    with patch.object(SpoutReplays, "__init__", separate), pytest.raises(AssertionError):
        crash_at("lines", 30)


def test_second_request_for_a_message_that_is_being_replayed_ends_with_it() -> None:
    """Two operators may request a replay at the same time."""
    kafka = produced(*LINES)
    with kafka.cluster(exact()) as cluster:
        dead = run_until_dead(cluster)
        Lines.mended = True
        order(kafka, dead)
        while len(cluster.emitted("lines")) < 4:
            cluster.step() or cluster.advance_time(0.1, run=False)
        order(kafka, dead)
        cluster.advance_time(5)
        expect_done(kafka, cluster)


class Grows(CustomStreamGrouping):
    """Makes some lists too long for a record after they were checked, and refuses others."""

    def prepare(self, context: Any, component: str, stream: str, tasks: Sequence[int]) -> None:
        self._tasks = tasks

    def choose_tasks(self, task: int, values: Sequence[Any]) -> Sequence[int]:
        if not Lines.mended:
            if values[0][0].startswith("grow"):
                values[0].append("x" * 20_000)
            elif values[0][0].startswith("refuse"):
                raise ValueError("no")
        return self._tasks[:1]


class InLists(Lines):
    """Puts each line into a list."""

    def deserialize(self, value: bytes) -> list[list[Any]] | None:
        return [[[line]] for (line,) in super().deserialize(value) or ()]


def growing() -> Topology:
    config = Config(topology_processing_guarantee=EXACTLY_ONCE, topology_frame_max_bytes=10_000)
    builder = TopologyBuilder("t", config)
    builder.set_spout("lines", KafkaSpout(source(scheme=InLists())))
    builder.set_bolt("upper", Upper()).custom_grouping("lines", Grows())
    builder.set_bolt("sink", KafkaBolt().with_topic_selector("out")).shuffle_grouping("upper")
    return builder.build()


@pytest.mark.parametrize("seed", SEEDS)
def test_message_that_cannot_be_sent_is_replayed_in_place(seed: int) -> None:
    """It was refused at its emit, or when the epoch was cut. The letter has the message."""
    kafka = produced(b"good 0", b"grow 1", b"refuse 2")
    with kafka.cluster(growing(), seed) as cluster:
        grown, refused = sorted(run_until_dead(cluster), key=lambda one: one.kind, reverse=True)
        assert (grown.kind, grown.value, grown.attempts) == ("too_large", b"grow 1", 1)
        assert (refused.kind, refused.value) == ("refused", b"refuse 2")
        order(kafka, [grown, refused])
        cluster.advance_time(5)
        again = [letter for letter in cluster.dead_letters if letter.replays]
        assert sorted((one.value, one.kind, one.attempts, one.replays) for one in again) == [
            (b"grow 1", "too_large", 2, 1),
            (b"refuse 2", "refused", 2, 1),
        ]
        assert sorted(event.outcome[:30] for event in events(kafka)) == [
            "failed again: a tuple does not",
            "failed again: cannot be emitte",
        ]
        assert last(kafka, "t.__dead_letters") == {}, "neither is discarded"
        Lines.mended = True
        order(kafka, again)
        cluster.advance_time(5)
        assert out(kafka) == ["GOOD 0", "GROW 1", "REFUSE 2"]
        assert set(last(kafka, "t.__orders").values()) == {None}
        assert cluster.pending == 0


def test_letter_of_one_of_several_tuples_has_no_message() -> None:
    """The other tuples were sent, so a replay would send them twice."""
    kafka = produced(b"good 0\ngrow 0")
    with kafka.cluster(growing()) as cluster:
        (letter,) = run_until_dead(cluster, 1)
        assert (letter.kind, letter.offset, letter.key, letter.value) == (
            "too_large",
            0,
            None,
            None,
        )
        assert letter.roots
        assert out(kafka) == ["GOOD 0"]
