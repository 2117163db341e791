"""`KafkaSpout`: emits the messages of a topic and stores its progress in ZooKeeper.

It follows Storm's documentation, *Storm Kafka Integration*. Partitions are assigned by task index.
Each has a `PartitionManager`, and they emit in turn, failed messages first. Changed offsets are
stored every `state_update_interval_ms`. Unlike Storm's spout, one `next_tuple` emits several
messages, up to the collector's capacity.

    config = SpoutConfig(KafkaHosts(), "sentences", "/kafka-spouts", "wordcount")
    builder.set_spout("sentences", KafkaSpout(config), 2)
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from kstorm.errors import ConfigError, KstormError
from kstorm.fitting import checked
from kstorm.kafka.config import ProcessingGuarantee, SpoutConfig
from kstorm.kafka.coordinator import PartitionCoordinator, StaticCoordinator, ZkCoordinator
from kstorm.kafka.emitting import emit_rows
from kstorm.kafka.hosts import StaticHosts
from kstorm.kafka.message_id import KafkaMessageId, origins_of
from kstorm.kafka.offset_committer import OffsetCommitter
from kstorm.kafka.offsets import TopologyRef
from kstorm.kafka.partition_manager import PartitionManager
from kstorm.kafka.partition_metrics import PartitionMetrics
from kstorm.kafka.ports import KafkaPorts, OffsetStore, Partition, SourceMessage, SourceReader
from kstorm.kafka.positioned_offsets import PositionedOffsets
from kstorm.kafka.replays import REPLAYED, SpoutReplays
from kstorm.kafka.retry import make_retry_manager
from kstorm.kafka.scheme import Values, close_scheme, open_scheme
from kstorm.kafka.spout_watermark import spout_watermark
from kstorm.topology import (
    Config,
    OutputFieldsDeclarer,
    Positioned,
    Spout,
    SpoutOutputCollector,
    TopologyContext,
    Traced,
)
from kstorm.topology.context import CLOCK
from kstorm.topology.event_time import NEVER, UNKNOWN, EventTime, Mark, Timed
from kstorm.topology.positioned import LetterContent, Position

_BATCH: Final = 500
"""Maximum messages read and emitted in one `next_tuple`, which takes about 3 ms."""
_FLUSH_SECS: Final = 5.0
"""Maximum seconds that `close` waits for the last offsets to be stored."""
_LEAST_FLUSH_SECS: Final = 1.0
"""Minimum share of `_FLUSH_SECS` for ZooKeeper, regardless of the time that Kafka took."""


class KafkaSpout(Timed, Positioned, Traced, Spout):
    """A spout that reads a Kafka topic. Each tuple's message id is a `KafkaMessageId`."""

    handles_unsendable = True

    @checked()
    def __init__(self, config: SpoutConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self.spout_config = config
        self._clock = clock

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare_stream(
            self.spout_config.output_stream_id, self.spout_config.scheme.output_fields
        )

    def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        """Open the reader and the offset store.

        `next_tuple` starts a partition once it has its lock. Raises `ConfigError` on invalid
        settings, and `KstormError` if the runtime provides no Kafka clients.
        """
        super().open(config, context, collector)
        if self._clock is time.monotonic:
            self._clock = context.resources.get(CLOCK, self._clock)
        ports = KafkaPorts.of(context)
        if self.spout_config.ignore_zk_offsets and ports.topology_id is None:
            raise ConfigError(
                f"{context.component!r} has ignore_zk_offsets set, but this deployment has no id, "
                "so a restart looks like a new deployment: set KSTORM_TOPOLOGY_ID to the same "
                "value for all processes of a deployment"
            )
        # If the retry manager cannot be created, fail now and not when the first partition starts.
        make_retry_manager(self.spout_config)
        open_scheme(self.spout_config.scheme)
        topology = TopologyRef(ports.topology_id or context.topology.name, context.topology.name)
        self._offsets: OffsetStore = ports.open_offsets(self.spout_config, context)
        self._read_to: dict[Partition, int] = {}
        self._committed_to: dict[Partition, int] = {}
        self._exact = config.exactly_once
        if self._exact:
            assert ports.open_positions is not None, "an exactly-once runtime provides it"
            self._offsets = PositionedOffsets(
                self._offsets,
                ports.open_positions(context),
                topology,
                context.topology.group(context.component),
                self._read_to,
                self._committed_to,
            )
        self._source: SourceReader = ports.open_source(self.spout_config)
        writer = ports.open_writer({})
        self._storing = OffsetCommitter(
            self._offsets, self._source, writer, self.spout_config, context, topology
        )
        self._watermark = spout_watermark(self.spout_config, context, self._offsets, self._source)
        is_static = isinstance(self.spout_config.hosts, StaticHosts)
        coordinator = StaticCoordinator if is_static else ZkCoordinator
        self._coordinator: PartitionCoordinator = coordinator(
            self.spout_config,
            context,
            collector,
            self._source,
            self._offsets,
            topology,
            self._storing,
            None if self._watermark is None else self._watermark.latest,
        )
        guarantee = self.spout_config.processing_guarantee
        self._tracks = guarantee is ProcessingGuarantee.AT_LEAST_ONCE
        self._replays: SpoutReplays | None = None
        if ports.open_orders is not None:
            in_epochs = ports.open_epoch_writer if self._exact else None
            self._replays = SpoutReplays(
                ports.open_orders(context),
                writer if in_epochs is None else in_epochs(),
                self.spout_config,
                context,
                collector,
                refuses="" if self._tracks else f"{guarantee}",
                in_epochs=self._exact,
            )
        self._claims = guarantee is ProcessingGuarantee.AT_MOST_ONCE
        self._turn = 0
        self._deactivated = False
        self._update_interval = self.spout_config.state_update_interval_ms / 1000
        self._next_update = self._clock() + self._update_interval
        self._problem: str | None = None
        self.partitions = PartitionMetrics(
            self.spout_config, self._coordinator, self._source, self._clock()
        )

    def next_tuple(self) -> None:
        """Emit due retries and new messages, up to a batch and the collector's capacity."""
        now = self._clock()
        self._coordinator.tick(now)
        if self._replays is not None:
            held = {manager.partition: manager.epoch for manager in self._coordinator.managers}
            self._replays.tick(now, held)
        self._claim()
        left = self._emit(now, _BATCH)
        if left and self.collector.capacity > 0:
            self._fill()
            self._claim()
            self._emit(now, left)
        if self._exact:
            self._note_positions()
        if now >= self._next_update:
            self._next_update = now + self._update_interval
            self._coordinator.commit()
            self._report_problem()
            self.partitions.log(now)

    def ack(self, message_id: KafkaMessageId) -> None:
        manager = self._coordinator.manager(message_id.partition)
        if manager is not None and manager.epoch == message_id.epoch:
            manager.ack(message_id)
            if self._deactivated:
                self._store_what_ended(manager)
        elif message_id.epoch == REPLAYED and self._replays is not None:
            self._replays.ack(message_id)

    def fail(self, message_id: KafkaMessageId) -> None:
        """Schedule a message's retry, or write it to the dead letters."""
        if self._exact:  # the failing bolt retries the tuple itself
            return
        manager = self._coordinator.manager(message_id.partition)
        if manager is not None and manager.epoch == message_id.epoch:
            manager.fail(message_id, self._clock())
        elif message_id.epoch == REPLAYED and self._replays is not None:
            self._replays.fail(message_id)

    def origins(
        self, message_ids: Sequence[KafkaMessageId]
    ) -> Iterable[tuple[str, int, int, Sequence[int]]]:
        return origins_of(message_ids)

    def event_time(self) -> EventTime | None:
        found = self.spout_config.event_time
        return None if found is None else EventTime(found, self.spout_config.event_time_idle_ms)

    def watermark(self) -> Mark:
        if self._watermark is None:
            return UNKNOWN
        now = self._clock()
        # While nothing is read, the ends of the partitions are not known.
        reads = not self._deactivated and self.collector.capacity > 0
        return self._watermark.mark(
            self._coordinator.assigned(), now, lambda: reads and not self._coordinator.unread(now)
        )

    def holders(self) -> Iterable[tuple[str, Mark]]:
        return () if self._watermark is None else self._watermark.holders()

    def positions(self) -> Mapping[tuple[str, int], int]:
        return {(place.topic, place.partition): offset for place, offset in self._read_to.items()}

    def positions_committed(self, positions: Mapping[tuple[str, int], int]) -> None:
        """Record the committed positions, which ZooKeeper's offsets then follow."""
        self._committed_to.update(
            (Partition(*place), offset) for place, offset in positions.items()
        )

    def gave_up(self, message_id: KafkaMessageId) -> LetterContent:
        if message_id.epoch == REPLAYED:
            return {} if self._replays is None else self._replays.gave_up(message_id)
        manager = self._coordinator.manager(message_id.partition)
        return {} if manager is None else manager.content_of(message_id)

    def before_commit(self) -> None:
        if self._replays is not None:
            self._replays.before_commit()

    def _note_positions(self) -> None:
        for manager in self._coordinator.all_managers():
            partition = manager.partition
            latest = None if manager.times is None else manager.times.latest
            reached = None if latest == NEVER else latest
            self._read_to[partition] = Position.of(manager.next_offset, reached)
            manager.most_to_store = self._committed_to.get(partition, manager.committed_to or 0)

    def refuses_exactly_once(self) -> str:
        if self.spout_config.processing_guarantee is not ProcessingGuarantee.AT_LEAST_ONCE:
            return (
                "its SpoutConfig has "
                f"processing_guarantee={self.spout_config.processing_guarantee}: leave that out"
            )
        if self.spout_config.ignore_zk_offsets:
            return (
                "ignore_zk_offsets is set, but its position is stored in Kafka: leave that out; "
                "docs/guides/operations.md explains how to move the position"
            )
        return ""

    def activate(self) -> None:
        """Resume. From now on `next_tuple` stores the offsets."""
        self._deactivated = False

    def deactivate(self) -> None:
        """Store the offsets, because `next_tuple` is not called any more.

        `ack` stores the offsets of trees that complete later.
        """
        self._deactivated = True
        self._coordinator.commit()

    async def close(self) -> None:
        """Store the offsets, waiting at most a few seconds, and release the locks."""
        began = time.monotonic()
        self._coordinator.commit()
        self._coordinator.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_SECS - _LEAST_FLUSH_SECS):
                await self._storing.close()
        self._coordinator.abandon()
        await asyncio.to_thread(
            self._shut, max(_LEAST_FLUSH_SECS, began + _FLUSH_SECS - time.monotonic())
        )

    def problem(self) -> KstormError | None:
        """Return why offsets cannot be stored or messages cannot be decoded, or None.

        The readiness check uses this.
        """
        unread = (manager.not_yet for manager in self._coordinator.all_managers())
        return (
            self._offsets.problem() or self._storing.problem() or next(filter(None, unread), None)
        )

    @property
    def is_quiet(self) -> bool:
        """True if `next_tuple` has nothing to emit before the source has messages: every partition
        is being read, and every message is finished."""
        return (
            self._watermark is None
            and not self._claims
            and self._coordinator.is_settled
            and not any(m.pending or m.waiting or m.paused for m in self._coordinator.managers)
        )

    @property
    def unread(self) -> str:
        """The known reason why Kafka cannot be read at the moment, or ""."""
        return self._coordinator.unread(self._clock())

    def metrics(self) -> dict[str, float]:
        return self.partitions.metrics(self._clock())

    def _emit(self, now: float, limit: int) -> int:
        """Emit from the partitions in turn. Returns how many of `limit` messages are left."""
        managers = self._coordinator.managers
        limit = self._retry(now, limit)
        rows: list[Values] = []
        ids: list[KafkaMessageId] = []
        room = self.collector.capacity
        for _ in managers:
            if not limit or len(ids) >= room:
                # The next call starts with this partition.
                limit = 0
                break
            limit -= managers[self._turn % len(managers)].take(now, limit, room, rows, ids)
            self._turn += 1
        if rows:
            self._emit_rows(rows, ids)
        return limit

    def _store_what_ended(self, manager: PartitionManager) -> None:
        """Store the offsets when they are due, and when a partition's last tree has ended."""
        now = self._clock()
        if manager.pending == 0 or now >= self._next_update:
            self._next_update = now + self._update_interval
            self._coordinator.commit()

    def _claim(self) -> None:
        # With `AT_MOST_ONCE`, a message is stored as done before it is emitted.
        if self._claims:
            self._coordinator.claim()

    def _retry(self, now: float, limit: int) -> int:
        """Emit failed messages that are due. Returns how many of `limit` messages are left."""
        for manager in self._coordinator.managers:
            while limit and manager.failures.waiting and self.collector.capacity > 0:
                if not manager.retry(now):
                    break
                limit -= 1
        return limit

    def _emit_rows(self, rows: list[Values], ids: list[KafkaMessageId]) -> None:
        """Emit in one batch. Messages that cannot be emitted become dead letters."""
        stream = self.spout_config.output_stream_id
        emit_rows(self.collector, rows, ids, stream, tracked=self._tracks, refuse=self._refused)
        if not self._tracks:
            for id in ids:
                self.ack(id)

    def _refused(self, id: KafkaMessageId, reason: str, error: Exception) -> None:
        manager = self._coordinator.manager(id.partition)
        if manager is not None:
            manager.refused(id, reason, error)

    def _fill(self) -> None:
        """Read more messages and pass them to their partitions.

        This is called after all allowed messages have been emitted. If a partition still has
        messages, it is at a limit, so it is paused to avoid buffering more. With `AT_MOST_ONCE`,
        messages only wait for their offset to be stored, so such a partition may buffer up to one
        batch.
        """
        for manager in self._coordinator.all_managers():
            full = len(manager.waiting) >= _BATCH if self._claims else bool(manager.waiting)
            if full and not manager.paused:
                self._source.pause(manager.partition)
            elif manager.paused and not full:
                self._source.resume(manager.partition)
            manager.paused = full
        batches: defaultdict[tuple[str, int], list[SourceMessage]] = defaultdict(list)
        for message in self._source.read(_BATCH):
            batches[message.topic(), message.partition()].append(message)
        for (topic, partition), messages in batches.items():
            reading = self._coordinator.manager(Partition(topic, partition))
            if reading is not None:
                reading.fill(messages)
        for place, end in self._source.ends_reached().items():
            reading = self._coordinator.manager(place)
            if reading is not None:
                reading.end_reached(end)

    def _report_problem(self) -> None:
        """Report once that offsets cannot be stored or messages cannot be decoded. Work continues."""
        problem = self.problem()
        text = None if problem is None else str(problem)
        if problem is not None and text != self._problem:
            self.collector.report_error(problem)
        self._problem = text

    def _shut(self, flush_secs: float) -> None:
        self._offsets.flush(flush_secs)
        self._offsets.close()
        self._source.close()
        if self._replays is not None:
            self._replays.close()
        close_scheme(self.spout_config.scheme)
