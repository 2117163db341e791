"""The streams topology of chaos produces in memory the output that its audit expects.

test_chaos_streams_audit.py shows that the audit finds each kind of defect.
"""

import random
from collections.abc import Iterator

import pytest

from kstorm.testing.kafka import FakeKafka
from tests.chaos.events import event, last_events
from tests.chaos.evidence import Evidence
from tests.chaos.feed import PostedMessage
from tests.chaos.findings import ChaosFindings, Record, RecordPlace
from tests.chaos.streams import BRANCHES, COUNTS, TOLD, topology
from tests.chaos.streams_audit import audit_streams
from tests.chaos.topology import PARTITIONS, SOURCE

MESSAGES, RATE = 120, 10.0
"""Twelve seconds of event time."""


def given(number: int) -> PostedMessage:
    return PostedMessage(f"m{number}", event(number, RATE), number % PARTITIONS)


def records(kafka: FakeKafka, topic: str) -> Iterator[Record]:
    for each in kafka.records(topic):
        yield Record(
            RecordPlace(topic, each.partition() or 0, each.offset() or 0),
            each.value() or b"",
            each.timestamp()[1],
        )


def run(seed: int = 0, *, kills: int = 0) -> ChaosFindings:
    """Run all branches, kill some processes, and audit the output."""
    kafka = FakeKafka({SOURCE: PARTITIONS, COUNTS: 4, TOLD: 4})
    chance = random.Random(seed)
    built = topology()
    with kafka.cluster(built, seed) as cluster:
        for number in range(MESSAGES):
            kafka.produce(SOURCE, given(number).text, partition=given(number).partition)
        for _ in range(kills):
            for _ in range(chance.randrange(300)):
                cluster.step()
            cluster.crash(
                chance.choice(list(built.components)), disk=chance.choice(["kept", "lost"])
            )
        cluster.run_until_idle()
        last = last_events(MESSAGES, RATE)
        for each in last:
            kafka.produce(SOURCE, each.text, partition=each.partition)
        for _ in range(3):
            cluster.run_until_idle()
            cluster.advance_time(2)
        cluster.run_until_idle()
    evidence = Evidence(
        sorted(records(kafka, SOURCE)),
        lambda topic: iter(sorted(records(kafka, topic))),
        last={each.id for each in last},
    )
    return audit_streams(evidence, BRANCHES)


@pytest.mark.parametrize("kills", [0, 6])
def test_audit_of_a_correct_run_finds_nothing(kills: int) -> None:
    """This holds if processes die, too."""
    found = run(kills, kills=kills)
    assert found.faults() == []
    assert (found.duplicates, found.over) == ([], 0)
    assert found.outputs > MESSAGES
