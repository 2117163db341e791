"""Replay requests of one batch: a few run first, and the others only if those succeed.

The tests use the real engine.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kstorm.core.dead_letters import DeadLetter, key_of
from kstorm.kafka.replay_requests import ReplayRequest, encode_request, failure_key
from kstorm.kafka.replay_stages import ReplayStages, stage_sizes
from kstorm.testing import LocalCluster
from kstorm.testing.kafka import FakeKafka
from kstorm.topology import (
    BasicOutputCollector,
    Config,
    FailedException,
    Topology,
    TopologyBuilder,
    Tuple,
)
from tests.unit.testing.test_replays import (
    Price,
    events,
    last,
    out,
    produced,
    run_until_dead,
    source,
    wired,
)

COUNT = 30
STAGE = [0] + [1] * 10 + [2] * (COUNT - 11)
"""The stage of each request, by number."""


@pytest.fixture(autouse=True)
def broken() -> Iterator[None]:
    Price.mended = False
    yield
    Price.mended = False


def lines(*worse: int) -> list[str]:
    """Returns failing messages. The numbers in `worse` fail even with the fixed bolt."""
    return [f"{'bad worse' if number in worse else 'bad'} {number}" for number in range(COUNT)]


class Worse(Price):
    """Fails messages marked as worse, even after the fix."""

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Fails the worse ones, and leaves the others to `Price`."""
        if "worse" in tuple["str"]:
            raise FailedException("worse")
        super().execute(tuple, collector)


def topology(tasks: int = 2) -> Topology:
    """Builds several tasks, each with its own partitions."""
    builder = TopologyBuilder("t", Config())
    found = wired(source(), tasks)
    for spec in found.components.values():
        if spec.kind == "spout":
            builder.set_spout(spec.id, spec.component, spec.parallelism)  # type: ignore[arg-type]
    builder.set_bolt("price", Worse(), 2).shuffle_grouping("lines")
    builder.set_bolt("sink", found.components["sink"].component).shuffle_grouping("price")  # type: ignore[arg-type]
    return builder.build()


def order_batch(kafka: FakeKafka, letters: list[DeadLetter], batch: str = "b", **more: Any) -> None:
    """Requests replays by message number, as the command does."""
    stages = stage_sizes(len(letters))
    for one in letters:
        number = int((one.value or b"").split()[-1])
        what = ReplayRequest(
            number=number,
            topic=one.topic,
            partition=one.partition,
            offset=one.offset,
            value=one.value,
            batch=batch,
            stage=STAGE[number],
            stages=stages,
            **more,
        )
        kafka.produce("t.__orders", encode_request(what), key_of(one, ""))


def pass_time(cluster: LocalCluster) -> None:
    """Advances the clock. The spout looks for requests once after each jump."""
    for _ in range(15):
        cluster.advance_time(1)


def by_number(letters: list[DeadLetter]) -> list[DeadLetter]:
    return sorted(letters, key=lambda one: int((one.value or b"").split()[-1]))


def ends(kafka: FakeKafka) -> dict[int, str]:
    """Returns the end of each request by number, and checks that it ended once."""
    found = [
        (int(event.what.split()[0]), event.outcome.split()[0].strip(":")) for event in events(kafka)
    ]
    assert len(dict(found)) == len(found)
    return dict(found)


def test_the_sizes_of_stages() -> None:
    assert [stage_sizes(count) for count in (0, 1, 2, 11, 12, 500)] == [
        [],
        [1],
        [1, 1],
        [1, 10],
        [1, 10, 1],
        [1, 10, 489],
    ]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tasks", [1, 3])
def test_a_stage_waits_for_the_one_before(seed: int, tasks: int) -> None:
    """All of them succeed."""
    kafka = produced(*lines(), partitions=4)
    with kafka.cluster(topology(tasks), seed) as cluster:
        dead = by_number(run_until_dead(cluster, COUNT))
        Price.mended = True
        order_batch(kafka, dead)
        pass_time(cluster)
        assert Counter(ends(kafka).values()) == {"done": COUNT}
        assert [STAGE[int(event.what.split()[0])] for event in events(kafka)] == STAGE
        assert len(out(kafka)) == COUNT
        assert set(last(kafka, "t.__orders").values()) == {None}


@pytest.mark.parametrize("seed", range(6))
def test_failure_in_the_first_stage_stops_the_batch(seed: int) -> None:
    kafka = produced(*lines(), partitions=4)
    with kafka.cluster(topology(), seed) as cluster:
        dead = by_number(run_until_dead(cluster, COUNT))
        order_batch(kafka, dead)
        pass_time(cluster)
        assert ends(kafka) == {number: "stopped" if number else "failed" for number in range(COUNT)}
        assert events(kafka)[-1].outcome == "stopped: 1 of 1 failed again in stage 1 of 3"
        assert [letter.replays for letter in cluster.dead_letters if letter.replays] == [1]
        assert last(kafka, "t.__dead_letters") == {}, "no letter is discarded"
        assert len(last(kafka, "t.__orders")) == COUNT + 1
        assert set(last(kafka, "t.__orders").values()) == {None}, "the failure is not kept for ever"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("worse", "goes_on"), [((3, 6), True), ((3, 6, 9), False)])
def test_a_fifth_may_fail(worse: tuple[int, ...], goes_on: bool, seed: int) -> None:
    """All tasks reach the same verdict, whichever of them has the failures."""
    kafka = produced(*lines(*worse), partitions=4)
    with kafka.cluster(topology(), seed) as cluster:
        dead = by_number(run_until_dead(cluster, COUNT))
        Price.mended = True
        order_batch(kafka, dead)
        pass_time(cluster)
        found = ends(kafka)
        assert {number for number, end in found.items() if end == "failed"} == set(worse)
        assert {found[number] for number in range(11, COUNT)} == {"done" if goes_on else "stopped"}
        assert found[0] == "done"
        assert set(last(kafka, "t.__orders").values()) == {None}


@pytest.mark.parametrize("seed", range(12))
def test_verdict_survives_crashes(seed: int) -> None:
    """Nothing of the last stage is emitted, even after a crash. Failed requests may be tried again."""
    kafka = produced(*lines(3, 6, 9), partitions=4)
    with kafka.cluster(topology(), seed) as cluster:
        dead = by_number(run_until_dead(cluster, COUNT))
        Price.mended = True
        order_batch(kafka, dead)
        for _ in range(seed * 8):
            cluster.step()
        cluster.crash("lines")
        cluster.advance_time(120)
        pass_time(cluster)
        assert not {f"BAD {number}" for number in range(11, COUNT)} & set(out(kafka))
        assert set(last(kafka, "t.__orders").values()) == {None}
        stopped = {
            event.what.split()[0] for event in events(kafka) if event.outcome.startswith("stopped")
        }
        assert stopped >= {str(number) for number in range(11, COUNT)}


def test_a_batch_does_not_hold_up_another() -> None:
    """Single replays continue too."""
    kafka = produced(*lines(), partitions=4)
    with kafka.cluster(topology()) as cluster:
        dead = by_number(run_until_dead(cluster, COUNT))
        Price.mended = True
        order_batch(kafka, dead[:15], "held", after=1 << 60)
        order_batch(kafka, dead[15:20], "b")
        order_batch(kafka, dead[20:], "")
        pass_time(cluster)
        assert ends(kafka) == dict.fromkeys(range(15, COUNT), "done")


def test_ended_request_is_not_started_again() -> None:
    """The requests precede their ends, and are more than one read returns."""
    kafka = produced(*(f"bad {number}" for number in range(700)))
    with kafka.cluster(topology()) as cluster:
        dead = run_until_dead(cluster, 700)
        Price.mended = True
        for one in dead:
            what = ReplayRequest(
                number=1,
                topic=one.topic,
                partition=one.partition,
                offset=one.offset,
                value=one.value,
            )
            kafka.produce("t.__orders", encode_request(what), key_of(one, ""))
        pass_time(cluster)
        assert len(out(kafka)) == 700
        cluster.crash("lines")
        pass_time(cluster)
        assert len(out(kafka)) == 700


def test_a_rate_is_kept_from_when_the_stage_begins() -> None:
    stages = ReplayStages()
    orders = [
        ReplayRequest(number=n, topic="in", partition=0, offset=n, batch="b", stage=1, pace=n * 500)
        for n in range(3)
    ]
    assert not stages.may_begin(orders[0], 0.0), "nothing is known of it yet"
    stages.look(orders, 10_000.0)
    stages.look(orders, 10_600.0)
    assert [stages.may_begin(order, 10_600.0) for order in orders] == [True, True, False]
    assert failure_key(orders[0], b"in/0/0/lines") == b"failed:b:in/0/0/lines"
