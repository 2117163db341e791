"""The source message of each tree, as init frames encode it."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core import outbox as outbox_module
from kstorm.core.origin_numbers import OriginNumbers, unknown_origins
from kstorm.core.origins import Origin, OriginRun, read_origins
from kstorm.core.outbox import Outbox
from kstorm.core.wire import AckFrame, decode, unpack_ids
from kstorm.errors import FrameError
from kstorm.kafka import KafkaHosts, KafkaMessageId, KafkaSpout, SpoutConfig
from kstorm.kafka.ports import Partition
from kstorm.topology import Traced
from tests.unit.core.spout_harness import Harness, Script
from tests.unit.core.test_outbox import topology

RUNS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(0, 2),
        st.integers(1, 3),
        st.lists(st.integers(0, 2**40), min_size=1, max_size=20)
        | st.builds(lambda n: list(range(n, n + 9)), st.integers(0, 99)),
    ),
    min_size=1,
    max_size=6,
)


@given(RUNS, st.data())
def test_origins_survive_encoding(
    runs: list[tuple[str, int, int, list[int]]], data: st.DataObject
) -> None:
    """This holds for any share of the trees in a frame, and for any order of their messages."""
    places = OriginNumbers()
    columns = places.columns(runs)
    told = [
        Origin(topic, partition, offset, attempt)
        for topic, partition, attempt, offsets in runs
        for offset in offsets
    ]
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(told), max_size=len(told))))
    found = places.runs(columns[0][mask], columns[1][mask])
    kept = [origin for origin, here in zip(told, mask, strict=True) if here]
    assert list(read_origins(found, len(kept))) == kept
    for run in found:
        assert [run.last] == [origin.offset for origin in read_origins([run], run.count) if origin][
            -1:
        ]


def test_consecutive_messages_take_no_bytes() -> None:
    """For one acker of four, they take one byte each."""
    places = OriginNumbers()
    row, offsets = places.columns([("t", 0, 1, list(range(100, 600)))])
    assert places.runs(row, offsets) == [OriginRun("t", 0, 1, 500, 100)]
    (run,) = places.runs(row[::4], offsets[::4])
    assert len(run.steps) == 124


def test_some_are_unknown() -> None:
    """If all origins are unknown, the frame has no runs."""
    places = OriginNumbers()
    assert places.runs(*unknown_origins(3)) == []
    assert list(read_origins([], 3)) == [None] * 3
    known = places.columns([("t", 4, 2, [7])])
    both = [np.concatenate(pair) for pair in zip(unknown_origins(2), known, strict=True)]
    assert list(read_origins(places.runs(both[0], both[1]), 3)) == [
        None,
        None,
        Origin("t", 4, 7, 2),
    ]


@pytest.mark.parametrize(
    "runs",
    [
        [OriginRun("t", 0, 1, 3, 0)],
        [OriginRun("t", 0, 1, 1, 0)],
        [OriginRun("t", 0, 1, 1 << 40, 0)],
        [OriginRun("t", 0, 1, 2, 0, b"123")],
        [OriginRun("t", 0, 1, 1, 0, b"1"), OriginRun("", 0, 0, 1, 0)],
        [OriginRun("", 0, 0, 0, 0), OriginRun("t", 0, 1, 2, 0)],
        [OriginRun("", 0, 0, 0, 0), OriginRun("t", 0, 1, 1, 0)],
    ],
)
def test_inconsistent_origins_are_refused(runs: list[OriginRun]) -> None:
    """The check comes before the memory is allocated."""
    with pytest.raises(
        FrameError, match=r"a frame of 2 trees has origins for|bytes of steps|has 0"
    ):
        list(read_origins(runs, 2))


class Log(Traced, Script):
    """A spout whose message ids are offsets."""

    def origins(self, message_ids: Sequence[Any]) -> Iterable[tuple[str, int, int, Sequence[int]]]:
        return [("log", 3, 1, list(message_ids))]


def test_spout_records_the_origins_of_its_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """It covers single and batch emits, the trees of each acker, and frames of any length."""
    monkeypatch.setattr(outbox_module, "_MAX_ROWS", 3)
    monkeypatch.setattr("tests.unit.core.spout_harness.Script", Log)
    harness = Harness(topology_acker_tasks=2)
    harness.next_tuple(harness.emitting(["x"], 50))
    harness.next_tuple(
        lambda: harness.task.collector.emit_batch([["a"] * 9], list(range(60, 69))) and None
    )
    found: dict[int, Origin | None] = {}
    for send in harness.outbox.drain_acks():
        frame = decode(AckFrame, send.value)
        roots = unpack_ids(frame.init_roots)
        assert {root % 2 for root in roots} == {send.partition}
        found.update(zip(roots, read_origins(frame.origins, len(roots)), strict=True))
    assert [found[root] for root in sorted(found)] == [
        Origin("log", 3, offset, 1) for offset in [50, *range(60, 69)]
    ]


def test_other_spouts_need_not() -> None:
    """Their init frames are unchanged."""
    harness = Harness()
    harness.next_tuple(harness.emitting(["x"], "id"))
    (frame,) = [decode(AckFrame, send.value) for send in harness.outbox.drain_acks()]
    assert (len(frame.init_roots), frame.origins) == (8, [])


def test_origins_of_kafka_message_ids() -> None:
    """There is one run per partition and attempt."""
    spout = KafkaSpout(SpoutConfig(KafkaHosts(), "t", "/z", "i"))
    one, two = Partition("t", 1), Partition("u", 2)

    def origins(*ids: KafkaMessageId) -> Any:
        return [
            (topic, partition, attempt, list(offsets))
            for topic, partition, attempt, offsets in spout.origins(ids)
        ]

    assert origins(
        KafkaMessageId(one, 4, 0, 1), KafkaMessageId(one, 4, 0, 1), KafkaMessageId(one, 6, 0, 1)
    ) == [("t", 1, 1, [4, 4, 6])]
    assert origins(
        KafkaMessageId(one, 4, 0, 1), KafkaMessageId(two, 4, 0, 1), KafkaMessageId(one, 5, 0, 1)
    ) == [("t", 1, 1, [4]), ("u", 2, 1, [4]), ("t", 1, 1, [5])]
    assert origins(KafkaMessageId(one, 4, 0, 2), KafkaMessageId(one, 5, 0, 1)) == [
        ("t", 1, 2, [4]),
        ("t", 1, 1, [5]),
    ]
    assert origins(KafkaMessageId(one, 4, 0, 2)) == [("t", 1, 2, [4])]


def test_places_of_endless_retries_make_room() -> None:
    """Each attempt takes one place number."""
    outbox = Outbox(topology())
    for attempt in range(1, 10_100):
        outbox.init_columns(
            1, np.array([attempt], np.uint64), np.array([9], np.uint64), [("t", 0, attempt, [5])]
        )
        (frame,) = [decode(AckFrame, send.value) for send in outbox.drain_acks()]
        assert list(read_origins(frame.origins, 1)) == [Origin("t", 0, 5, attempt)]
    assert len(outbox._places._places) < 10_001
