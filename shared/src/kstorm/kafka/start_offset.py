"""The offset at which a spout task starts to read a partition: the stored one, or the one of
`start_offset_time`."""

from kstorm.kafka.config import EARLIEST_TIME, LATEST_TIME, SpoutConfig
from kstorm.kafka.finished_ranges import FinishedRange, moved_range
from kstorm.kafka.offsets import StoredOffset, TopologyRef
from kstorm.kafka.ports import OffsetStore, Partition, SourceReader


class StartOffsets:
    """Chooses the start offsets of one spout task's partitions."""

    def __init__(
        self, config: SpoutConfig, source: SourceReader, offsets: OffsetStore, topology: TopologyRef
    ) -> None:
        self._config, self._source = config, source
        self._offsets, self._topology = offsets, topology

    def stored(self, partition: Partition) -> StoredOffset | None:
        """Return the stored offset, or None if it is another deployment's and must be ignored.

        In that case this deployment's start offset is stored immediately, even if the offset is the
        same. After a crash, this identifies the deployment.
        """
        stored = self._offsets.load(partition)
        ignored = (
            self._config.ignore_zk_offsets
            and stored is not None
            and stored.topology.id != self._topology.id
        )
        return None if ignored else stored

    def resume_at(
        self, partition: Partition, stored: StoredOffset | None, *, late: bool
    ) -> int | None:
        """Return the offset to start at, or None while it is being looked up."""
        behind = self._config.max_offset_behind
        if stored is not None and behind is None:
            return stored.offset
        start = self.current(partition, late=late)
        if stored is None or behind is None or start is None or start - stored.offset > behind:
            return start
        return stored.offset

    def current(self, partition: Partition, *, late: bool) -> int | None:
        """Return the current offset of `start_offset_time`.

        For a partition that was found later, `LATEST_TIME` means its beginning: its messages were
        written while the spout was running.
        """
        time = self._config.start_offset_time
        from_its_beginning = late and time == LATEST_TIME
        return self._source.offset_for(partition, EARLIEST_TIME if from_its_beginning else time)

    def skipped(
        self, partition: Partition, resumed: StoredOffset | None, offset: int
    ) -> FinishedRange | None:
        """Return the range that is skipped by starting at `offset`.

        `resumed` is the offset from which the spout resumes. With exactly once, this is its
        position.
        """
        start = f"the offset of start_offset_time={self._config.start_offset_time}"
        before = self._offsets.stored_offset(partition)
        if resumed is not None:
            why = f"more than max_offset_behind={self._config.max_offset_behind} behind {start}"
        elif before is not None:
            why = (
                "another deployment's offset is ignored (ignore_zk_offsets), so the partition is "
                f"read from {start}"
            )
        else:
            why = f"nothing was stored, so the partition is read from {start}"
        position = 0 if resumed is None else resumed.offset
        return moved_range(before or 0, offset, why, position=position)
