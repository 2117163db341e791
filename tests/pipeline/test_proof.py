"""Level 4 of the audit: trees recomputed by Spark."""

import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from kstorm.core.failure_notes import Note
from kstorm.core.origin_numbers import OriginNumbers, unknown_origins
from kstorm.core.origins import OriginRun, read_origins
from kstorm.core.wire import VERSION, AckFrame, CompletionFrame, encode, pack_ids
from kstorm.testing import LocalCluster
from kstorm_pipeline.audit import frames, proof
from kstorm_pipeline.audit.proof import (
    AckerProof,
    close,
    compare,
    completions_of,
    heads_of,
    updates_of,
)
from kstorm_pipeline.errors import PipelineError
from tests.pipeline.topic import DAY
from tests.sim.topologies import diamond_that_fails_every_seventh
from tests.sim.truth import Truth

pytestmark = pytest.mark.timeout(900)

IDS = st.integers(1, (1 << 64) - 1)
RECORD = "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, value BINARY"
PAIRS = st.lists(st.tuples(IDS, IDS), max_size=20)


def signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def ack_frame(
    inits: Sequence[tuple[int, int]] = (),
    acks: Sequence[tuple[int, int]] = (),
    failed: Sequence[int] = (),
    task: int = 1,
    begins: bool = False,
) -> bytes:
    init_roots, init_vals, roots, vals = (
        pack_ids([pair[at] for pair in pairs]) for pairs in (inits, acks) for at in (0, 1)
    )
    frame = AckFrame(
        VERSION, task, init_roots, init_vals, roots, vals, pack_ids(failed), begins=begins
    )
    if inits:
        frame.by, frame.origins = "spout-0", [OriginRun("t", 0, 1, len(inits), 5)]
    if failed:
        frame.notes = {failed[0]: Note(4, "KeyError", "'x'", "join.py:41")}
    return encode(frame)


@given(PAIRS, PAIRS, st.lists(IDS, max_size=20), st.integers(0, 1 << 40), st.booleans())
def test_frames_of_kstorm_are_decoded(
    inits: list[tuple[int, int]],
    acks: list[tuple[int, int]],
    failed: list[int],
    task: int,
    begins: bool,
) -> None:
    """Into the same numbers, but signed."""
    data = ack_frame(inits, acks, failed, task, begins)
    assert list(frames.updates(data)) == [
        *((signed(root), signed(val), True, False) for root, val in inits),
        *((signed(root), signed(val), False, False) for root, val in acks),
        *((signed(root), 0, False, True) for root in failed),
    ]
    assert list(frames.origins(data)) == [
        (signed(root), "t", 0, 5 + number) for number, (root, _) in enumerate(inits)
    ]
    acked = [root for root, _ in inits]
    notes = dict.fromkeys(failed, Note(4, "KeyError", "x", "join.py:41"))
    said = encode(
        CompletionFrame(VERSION, 0, acked=pack_ids(acked), failed=pack_ids(failed), notes=notes)
    )
    assert frames.completed(said) == tuple(map(signed, acked))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "orders", "Aufträge"]),
            st.integers(0, 3),
            st.integers(1, 3),
            st.lists(st.integers(0, 1 << 40), min_size=1, max_size=5, unique=True).map(sorted),
        ),
        max_size=6,
    )
)
def test_origins_are_decoded_as_kstorm_decodes_them(
    runs: list[tuple[str, int, int, list[int]]],
) -> None:
    """With steps of every width, several topics, and trees of unknown origin."""
    numbers = OriginNumbers()
    columns = [numbers.columns([run]) if run[0] else unknown_origins(len(run[3])) for run in runs]
    places, offsets = (
        np.concatenate([np.empty(0, np.int64), *(column[at] for column in columns)])
        for at in (0, 1)
    )
    roots = range(1, places.size + 1)
    encoded = numbers.runs(places, offsets)
    data = encode(
        AckFrame(VERSION, 1, pack_ids(roots), pack_ids(roots), origins=encoded, by="spout-0")
    )
    expected = zip(roots, read_origins(encoded, places.size), strict=True)
    assert list(frames.origins(data)) == [
        (root, *origin[:3]) for root, origin in expected if origin is not None
    ]


@pytest.mark.parametrize("data", [b"\x99\x01" + bytes(8), b"\x99\x02" + bytes(8)])
def test_numbers_in_place_of_columns_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="a column of type int"):
        list(frames.updates(data))


@given(st.binary(max_size=60))
def test_invalid_frames_are_refused(data: bytes) -> None:
    """Only with ValueError or struct's error."""
    for read in (
        lambda: list(frames.updates(data)),
        lambda: list(frames.origins(data)),
        lambda: frames.completed(data),
    ):
        with suppress(ValueError, struct.error):
            read()


def records(spark: SparkSession, values: Sequence[bytes], partition: int = 0) -> DataFrame:
    rows = [("topic", partition, offset, DAY, value) for offset, value in enumerate(values)]
    return spark.createDataFrame(rows, RECORD)


def closed(spark: SparkSession, values: Sequence[bytes]) -> dict[int, bool]:
    return {row.root: row.closed for row in close(updates_of(records(spark, values))).collect()}


@pytest.mark.slow
def test_topic_without_readable_frames_is_refused(spark: SparkSession) -> None:
    """For example, if the pipeline is older than the services. A few foreign records do no harm."""
    newer = b"\x99\x03" + bytes(8)
    proof._check_that_frames_are_read(records(spark, [newer, ack_frame([(1, 2)])]), "t.__acker")
    proof._check_that_frames_are_read(records(spark, []), "t.__acker")
    with pytest.raises(
        PipelineError, match=r"none of the first 2 records of topic 't\.__acker' is a frame"
    ):
        proof._check_that_frames_are_read(records(spark, [newer, b""]), "t.__acker")


@pytest.mark.slow
def test_trees_close_when_their_values_cancel(spark: SparkSession) -> None:
    """In any order. A duplicate beginning counts once, a failed tree is not complete, and a tree
    without a beginning is ignored."""
    assert closed(
        spark,
        [
            ack_frame([(1, 0b11), (2, 5), (3, 9), (4, 7), (6, 3)]),
            ack_frame(acks=[(1, 0b01), (5, 4), (9, 1)]),
            ack_frame([(2, 5), (5, 4)], acks=[(1, 0b10), (2, 5)]),
            ack_frame(acks=[(3, 8)], failed=[4]),
            ack_frame(acks=[(4, 7), (6, 3), (6, 8)]),
        ],
    ) == {1: True, 2: True, 3: False, 4: False, 5: True, 6: True}


def simulated(seeds: Sequence[int]) -> tuple[list[bytes], list[bytes]]:
    """Acker input and completions from clusters whose processes are killed at random."""
    told: list[bytes] = []
    said: list[bytes] = []
    for seed in seeds:
        random, truth = Random(seed), Truth(messages=30)
        topology = diamond_that_fails_every_seventh(truth, acker_executors=2)
        with LocalCluster(topology, seed) as cluster:
            cluster.disturb(duplicate=0.05, reorder=0.05)
            for _ in range(100):
                for _ in range(random.randint(1, 12)):
                    cluster.step()
                cluster.crash(random.choice(("source", "left", "join", "__acker")))
            cluster.disturb()
            for _ in range(100):
                cluster.advance_time(1)
            assert truth.finished == set(range(30))
            told += cluster.sent(topology.acker_topic)
            said += cluster.sent(topology.completions_topic("source"))
    return told, said


def proven(spark: SparkSession, told: Sequence[bytes], said: Sequence[bytes]) -> AckerProof:
    rows = records(spark, told)
    return compare(completions_of(records(spark, said)), updates_of(rows), heads_of(rows))


def test_spark_closes_the_same_trees_as_the_ackers(spark: SparkSession) -> None:
    """Whatever was killed, duplicated, or reordered."""
    told, said = simulated((1, 2, 3))
    found = proven(spark, told, said)
    completed = {root for value in said for root in frames.completed(value)}
    assert found == (len(completed), len(completed), [])
    assert len(completed) >= 90


def test_premature_completion_is_caught(spark: SparkSession) -> None:
    """Trees are named by their roots and by the record that reports them."""
    with patch("kstorm.core.ledger._VAL", 0):
        told, said = simulated((1,))
    found = proven(spark, told, said)
    assert found.findings
    assert all(each.fault and each.level == 4 for each in found.findings)
    assert re.fullmatch(
        r"a tree that is not proven: topic\[0\] \d+: the tree [0-9a-f]{16} is reported as complete, but it is not",
        str(found.findings[0]),
    )


@pytest.mark.slow
def test_completed_tree_without_a_beginning_is_caught(spark: SparkSession) -> None:
    """If the acker log is complete."""
    said = [encode(CompletionFrame(VERSION, 0, acked=pack_ids([1, 7])))]
    found = proven(spark, [ack_frame(begins=True), ack_frame([(1, 3)], acks=[(1, 3)])], said)
    assert (found.said, found.closed) == (1, 1)
    assert [each.note for each in found.findings] == [
        "the tree 0000000000000007 is reported as complete, but it never began"
    ]


@pytest.mark.slow
def test_trees_with_possibly_deleted_records_are_ignored(spark: SparkSession) -> None:
    """An ack may be missing for a tree that began soon after the first retained record. Later trees
    are whole."""
    frames_of = (ack_frame([(1, 3)]), ack_frame([(2, 3)]), ack_frame(acks=[(2, 3)]))
    rows = [
        ("topic", 0, 70 + number, DAY + number * timedelta(minutes=20), value)
        for number, value in enumerate(frames_of)
    ]
    told = spark.createDataFrame(rows, RECORD)
    said = completions_of(
        records(spark, [encode(CompletionFrame(VERSION, 0, acked=pack_ids([1, 2, 3])))])
    )
    assert compare(said, updates_of(told), heads_of(told)) == (1, 1, [])


@pytest.mark.slow
def test_reported_roots_are_distinct(spark: SparkSession) -> None:
    """However often a root is reported."""
    said = [
        encode(CompletionFrame(VERSION, 0, acked=pack_ids(roots))) for roots in ([1, 2], [2, 3], [])
    ]
    assert sorted(row.root for row in completions_of(records(spark, said)).collect()) == [1, 2, 3]


@pytest.mark.slow
def test_random_trees_close_with_their_last_edge(spark: SparkSession) -> None:
    """Without its last edge, no tree closes. Updates come in any order."""
    random = Random(1)
    trees = {
        random.getrandbits(64): [random.getrandbits(64) for _ in range(random.randint(2, 6))]
        for _ in range(50)
    }
    first: list[bytes] = []
    last: list[bytes] = []
    for root, edges in trees.items():
        val = 0
        for edge in edges:
            val ^= edge
        told = [ack_frame([(root, val)]), *(ack_frame(acks=[(root, edge)]) for edge in edges[:-1])]
        random.shuffle(told)
        first += told
        last.append(ack_frame(acks=[(root, edges[-1])]))
    random.shuffle(first)
    assert closed(spark, first) == {signed(root): False for root in trees}
    assert closed(spark, first + last) == {signed(root): True for root in trees}
