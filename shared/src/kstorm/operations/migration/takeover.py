"""Plan the takeover of Storm's offsets by a kstorm spout."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kstorm.errors import ConfigError, InUseError
from kstorm.kafka.ports import Partition
from kstorm.operations.migration.storm_offsets import StormOffset, StormOffsets
from kstorm.operations.offsets.source_log import LogRange
from kstorm.runtime.zookeeper.nodes import OffsetNode

_LOOK_SECS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Takeover:
    """One partition."""

    partition: Partition
    storm: int | None
    """Storm's offset, or None for a partition that was always empty."""
    now: int | None
    """kstorm's stored offset, or None."""
    new: int
    """Offset at which kstorm will start."""
    left: int
    """Messages from there to the end of the log."""


def offsets_at_rest(
    source: StormOffsets, topic: str, watch_secs: float
) -> Mapping[int, StormOffset]:
    """Return Storm's offsets if Storm does not change them for `watch_secs`.

    Raises `InUseError` if Storm is connected, or changes one.
    """
    source.check_unused()
    first = source.read(topic)
    deadline = time.monotonic() + watch_secs
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(_LOOK_SECS, left))
        later = source.read(topic)
        for number in sorted(later.keys() | first.keys()):
            if later.get(number) != first.get(number):
                raise InUseError(
                    f"Storm still runs: its offset of {Partition(topic, number)} in "
                    f"{source.place} moved from {_offset(first, number)} to "
                    f"{_offset(later, number)} while this command looked. Nothing was changed; "
                    "stop Storm's topology with `storm kill` first"
                )
    source.check_unused()
    return first


def plan_takeover(
    storm: Mapping[int, StormOffset],
    logs: Mapping[Partition, LogRange],
    nodes: Mapping[Partition, OffsetNode],
) -> Sequence[Takeover]:
    """Return what each partition's offset will be.

    Raises `ConfigError` if an offset of Storm cannot be used. The error has the command that sets
    all offsets by hand.
    """
    (topic,) = {partition.topic for partition in logs}
    unknown = sorted(storm.keys() - {partition.partition for partition in logs})
    if unknown:
        raise ConfigError(
            f"the topic {topic!r} has {len(logs)} partitions, but Storm stored offsets of "
            f"partition {', '.join(map(str, unknown))} too: the topic was recreated, or it is "
            "another one. Nothing was changed"
        )
    wrong = [
        reason
        for partition, log in logs.items()
        if (reason := _unusable(storm.get(partition.partition), partition, log))
    ]
    if wrong:
        pairs = " ".join(
            f"{partition.partition}={_nearest(storm.get(partition.partition), log)}"
            for partition, log in logs.items()
        )
        raise ConfigError(
            f"{'; '.join(wrong)}. Nothing was changed; to accept that, start there with "
            f"`kstorm offsets set {pairs}` and the same options of the spout"
        )
    return [
        _takeover(storm.get(partition.partition), partition, log, nodes[partition])
        for partition, log in logs.items()
    ]


def _takeover(
    storm: StormOffset | None, partition: Partition, log: LogRange, node: OffsetNode
) -> Takeover:
    new = log.end if storm is None else storm.offset
    now = None if node.stored is None else node.stored.offset
    return Takeover(partition, None if storm is None else storm.offset, now, new, log.end - new)


def _unusable(storm: StormOffset | None, partition: Partition, log: LogRange) -> str:
    if storm is None:
        has = f"Storm has no offset of {partition}, which has the offsets {log.start} to {log.end}"
        return has if log.end > log.start else ""
    if storm.offset < log.start:
        return (
            f"Storm's offset {storm.offset} of {partition} has expired: the log starts at "
            f"{log.start}, so {log.start - storm.offset} messages are lost"
        )
    if storm.offset > log.end:
        return (
            f"Storm's offset {storm.offset} of {partition} is after the log's end {log.end}: the "
            "topic was recreated, or its brokers have lost records"
        )
    return ""


def _nearest(storm: StormOffset | None, log: LogRange) -> int:
    """Return the first offset that may be unfinished."""
    if storm is None or storm.offset > log.end:
        return log.start
    return max(storm.offset, log.start)


def _offset(offsets: Mapping[int, StormOffset], number: int) -> object:
    found = offsets.get(number)
    return "none" if found is None else found.offset
