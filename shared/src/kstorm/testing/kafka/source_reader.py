"""Reads the topics of a fake Kafka: the `SourceReader` of one spout task."""

from collections.abc import Mapping, Sequence

from kstorm.kafka.config import EARLIEST_TIME, LATEST_TIME, SpoutConfig
from kstorm.kafka.hosts import StaticHosts, topics_matching
from kstorm.kafka.ports import Broker, Partition, SourceFault
from kstorm.testing.kafka.broker import FakeRecord, PendingRequests, Topics

_BROKER = Broker("fake", 9092)
_AWAY = "the fake Kafka cannot be reached"


class FakeSource:
    """Behaves like librdkafka: round trips are answered later.

    Like every `SourceReader`, it resets a pause in `assign` and `unassign`.
    """

    def __init__(self, topics: Topics, answers: PendingRequests, config: SpoutConfig) -> None:
        self._topics, self._answers, self._config = topics, answers, config
        self._known: Mapping[Partition, Broker] | None = None
        self._looking = False
        self._asked: dict[tuple[Partition, int], int | None] = {}
        self._positions: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._out_of_range: set[Partition] = set()
        # Partitions that stopped before an undecodable batch, each with a token of that stop.
        self._stands: dict[Partition, object] = {}
        self._ends: dict[Partition, int] = {}
        self._reached: dict[Partition, int] = {}
        self._faults: list[SourceFault] = []
        self._told: set[str] = set()

    def refresh(self, topic: str) -> None:
        if not self._looking:
            self._looking = True
            self._answers.later(self, self._look)

    def partitions(self, topic: str) -> Mapping[Partition, Broker] | None:
        """Return the result of the last lookup."""
        return self._known

    def offset_for(self, partition: Partition, time: int) -> int | None:
        """Return None until the answer has arrived."""
        asked = partition, time
        if asked not in self._asked:
            self._asked[asked] = None
            self._answers.later(self, lambda: self._find(partition, time))
            return None
        return None if self._asked[asked] is None else self._asked.pop(asked)

    def assign(self, partition: Partition, offset: int) -> None:
        """Read from `offset`, even if the partition was paused."""
        self._paused.discard(partition)
        self._positions[partition] = offset
        self._out_of_range.discard(partition)
        self._forget_undecodable(partition)

    def unassign(self, partition: Partition) -> None:
        """Stop reading the partition, and forget that it was paused."""
        self._paused.discard(partition)
        self._positions.pop(partition, None)
        self._reached.pop(partition, None)
        self._forget_undecodable(partition)
        for asked in [asked for asked in self._asked if asked[0] == partition]:
            del self._asked[asked]

    def pause(self, partition: Partition) -> None:
        self._paused.add(partition)

    def resume(self, partition: Partition) -> None:
        self._paused.discard(partition)

    def read(self, max_messages: int) -> Sequence[FakeRecord]:
        """Return some of the partitions' next records, in turn."""
        if self._answers.away:
            self._tell(SourceFault(_AWAY))
            return ()
        self._told.discard(_AWAY)
        found: list[FakeRecord] = []
        standing = self._paused | self._out_of_range | self._stands.keys()
        for partition in [place for place in self._positions if place not in standing]:
            records = self._read(partition, max_messages - len(found))
            found += records
            if records:  # move this partition behind the others
                self._positions[partition] = records[-1].position + 1
                self._positions = {
                    **_without(self._positions, partition),
                    partition: self._positions[partition],
                }
        return found

    def faults(self) -> Sequence[SourceFault]:
        """Return faults since the last call, each of them once."""
        faults, self._faults = self._faults, []
        return faults

    def ends_reached(self) -> Mapping[Partition, int]:
        """Return the ends after which a read found no record."""
        reached, self._reached = self._reached, {}
        return reached

    def end_offset(self, partition: Partition) -> int | None:
        """Return the end offset as of the last read of the partition."""
        return self._ends.get(partition)

    def commit(self, partition: Partition, offset: int) -> None:
        """Do nothing: no lag tools read a fake Kafka."""

    def close(self) -> None:
        self._positions.clear()
        self._answers.forget(self)

    def _look(self) -> None:
        self._looking = False
        config, topics = self._config, self._topics
        if isinstance(config.hosts, StaticHosts):
            information = config.hosts.partition_information
            self._known = {
                place: information.partition_map[place.partition] for place in information
            }
            return
        names = [config.topic]
        if config.kafka_topic_wildcard_match:
            names = topics_matching(config.topic, topics.names())
        found = [partition for name in names for partition in topics.partitions(name)]
        if not found and not config.kafka_topic_wildcard_match:
            self._tell(
                SourceFault(
                    f"the fake Kafka has no topic {config.topic!r}: add it with create_topic"
                )
            )
            return
        self._known = dict.fromkeys(found, _BROKER)

    def _find(self, partition: Partition, time: int) -> None:
        log = self._topics.find(partition)
        if (partition, time) not in self._asked:
            return
        if log is None:
            del self._asked[partition, time]
            self._tell(_missing(partition))
        elif time in (EARLIEST_TIME, LATEST_TIME):
            self._asked[partition, time] = log.start if time == EARLIEST_TIME else log.end
        else:
            self._asked[partition, time] = log.first_at(time)

    def _read(self, partition: Partition, most: int) -> Sequence[FakeRecord]:
        log = self._topics.find(partition)
        if log is None:
            self._tell(_missing(partition))
            return ()
        self._ends[partition] = log.end
        position = self._positions[partition]
        if not log.start <= position <= log.end:
            self._out_of_range.add(partition)
            reason = f"{partition} has the offsets {log.start} to {log.end}, not {position}"
            self._faults.append(SourceFault(reason, partition, out_of_range=True))
            return ()
        records, batch = log.since(position, most), log.undecodable_from(position)
        if batch is not None:
            records = [record for record in records if record.position < batch[0]]
            if most and not records:
                self._look_into(partition, batch)
        elif most and not records:
            self._reached[partition] = self._positions[partition] = log.end
        return records

    def _look_into(self, partition: Partition, batch: tuple[int, int]) -> None:
        """Stop reading at a batch that cannot be decoded. Its extent is reported later."""
        stands = self._stands[partition] = object()

        def tell() -> None:
            if self._stands.get(partition) is stands:
                offsets = f"{batch[0]} to {batch[1] - 1}"
                reason = f"{partition}: the batch of offsets {offsets} cannot be decoded"
                self._faults.append(SourceFault(reason, partition, undecodable=batch))

        self._answers.later(self, tell)

    def _forget_undecodable(self, partition: Partition) -> None:
        self._stands.pop(partition, None)
        self._faults = [
            fault
            for fault in self._faults
            if fault.undecodable is None or fault.partition != partition
        ]

    def _tell(self, fault: SourceFault) -> None:
        if fault.reason not in self._told:
            self._told.add(fault.reason)
            self._faults.append(fault)


def _missing(partition: Partition) -> SourceFault:
    return SourceFault(f"the fake Kafka has no {partition}", partition)


def _without(positions: dict[Partition, int], partition: Partition) -> dict[Partition, int]:
    return {place: position for place, position in positions.items() if place != partition}
