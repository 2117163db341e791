"""librdkafka's statistics that show a stuck partition, and similar ones that do not."""

import json

from kstorm.kafka.cluster import Partition
from kstorm.runtime.kafka.statistics import ClientStatistics, read_statistics
from kstorm.runtime.kafka.stuck_fetch import StuckFetchDetector

PLACE = Partition("in", 0)


def statistics(
    fetches: int, position: int = 4, stable: int = 10, queued: int = 0
) -> ClientStatistics:
    partition = {"next_offset": position, "ls_offset": stable, "fetchq_cnt": queued}
    brokers = {"a": {"req": {"Fetch": fetches}}, "b": {"req": {}}}
    return read_statistics(
        json.dumps({"topics": {"in": {"partitions": {"0": partition}}}, "brokers": brokers})
    )


def heard(
    *told: ClientStatistics, read: tuple[Partition, ...] = (PLACE,)
) -> list[tuple[Partition, int]]:
    """Returns the result of the last statistics."""
    silences = StuckFetchDetector()
    return [list(silences.heard(each, read)) for each in told][-1]


def test_partition_that_does_not_advance_over_many_fetches_is_stuck() -> None:
    assert heard(statistics(100), statistics(106)) == [(PLACE, 4)]
    assert heard(statistics(100), statistics(103), statistics(105)) == []


def test_slow_fetch_is_not_stuck() -> None:
    """A large batch may come over a slow line."""
    assert heard(*[statistics(100)] * 50) == []


def test_advancing_partition_is_not_stuck() -> None:
    assert heard(statistics(100, 3), statistics(106, 4), statistics(110, 4)) == []


def test_partition_at_its_end_is_not_stuck() -> None:
    """The end may be the last stable offset, before an open transaction."""
    assert heard(statistics(100, 10), statistics(200, 10)) == []
    assert heard(statistics(100, -1001, -1001), statistics(200, -1001, -1001)) == []


def test_partition_with_queued_records_is_not_stuck() -> None:
    assert heard(statistics(100, queued=1), statistics(200, queued=1)) == []


def test_unread_partition_is_not_stuck() -> None:
    """The partition is paused or moved. Earlier silence does not count when it is read again."""
    silences = StuckFetchDetector()
    list(silences.heard(statistics(100), [PLACE]))
    assert list(silences.heard(statistics(150), [])) == []
    assert list(silences.heard(statistics(151), [PLACE])) == []
    assert list(silences.heard(statistics(152), [Partition("other", 0)])) == []
