"""Handles the requests to emit the messages of dead letters again.

The task that holds a partition's lock emits these messages as their next attempt, at their own
coordinates. So consumers can recognise earlier output of the same message. The messages are
tracked, but do not block the stored offset. See docs/development/adr/0016.

* With at-least-once processing, when the tuple trees are complete, first the dead letter is
  deleted, and then the request ends. If a message fails again, its new dead letter replaces the old
  one, and the request ends when Kafka has it. If the process dies before that, the request stays
  open, and the partition's next owner handles it again, so a replay happens at least once.
* With exactly-once processing, the emit, the end of the request and the deletion of the letter, or
  the new letter, are committed in one epoch. The partition's next owner first reads all requests
  that the previous owner may have ended.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from kstorm.core.dead_letters import UNDECODABLE, kind_of
from kstorm.core.failure_notes import note_of
from kstorm.errors import BrokerError, FrameError, NotYetError
from kstorm.events import Event, encode_event
from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.emitting import emit_message, explain_unemittable
from kstorm.kafka.failures import Cause, why_failed
from kstorm.kafka.message_id import KafkaMessageId
from kstorm.kafka.ports import Partition, RecordWriter, ReplayRequestReader
from kstorm.kafka.replay_requests import (
    FAILED,
    ReplayRequest,
    decode_request,
    encode_failure,
    failure_key,
)
from kstorm.kafka.replay_stages import ReplayStages
from kstorm.kafka.scheme import Values, deserializer
from kstorm.topology import SpoutOutputCollector, TopologyContext
from kstorm.topology.positioned import LetterContent

REPLAYED: Final = -1
"""The epoch of replayed messages, which is never that of a partition."""
_LOOK_SECS: Final = 0.2


class _Replay(Struct):
    """A request in progress."""

    key: bytes
    order: ReplayRequest
    id: KafkaMessageId
    tuples: int = 0
    trees: int = 0
    """Its trees that are not complete. 0 if it has failed."""


class SpoutReplays:
    """The replay requests of one spout task.

    `reader` belongs to the task. The owner of `writer` closes it. `refuses` is the reason why the
    task rejects all requests, or "". With `in_epochs`, the writer's records are committed with the
    tuples that the task emits.
    """

    def __init__(
        self,
        reader: ReplayRequestReader,
        writer: RecordWriter,
        config: SpoutConfig,
        context: TopologyContext,
        collector: SpoutOutputCollector,
        *,
        refuses: str = "",
        in_epochs: bool = False,
        unix: Callable[[], float] = time.time,
    ) -> None:
        self._reader, self._writer, self._collector, self._refuses, self._unix = (
            reader,
            writer,
            collector,
            refuses,
            unix,
        )
        self._in_epochs = in_epochs
        self._stream, self._topology = config.output_stream_id, context.topology
        self._who = f"{context.component}, task {context.task_id}"
        self._suffix = f"/{context.component}".encode()
        self._deserialize = deserializer(config.scheme, config.max_message_bytes)
        self._open: dict[bytes, ReplayRequest] = {}
        self._under_way: dict[tuple[Partition, int], _Replay] = {}
        # Replays of the current epoch, which end with it.
        self._emitted: dict[KafkaMessageId, _Replay] = {}
        # Requests that are being ended: their tombstone has not been read back yet.
        self._ended: set[bytes] = set()
        self._held: Mapping[Partition, int] = {}
        self._next_look = 0.0
        self._stages = ReplayStages()
        # Failures that are being deleted: their tombstone has not been read back yet.
        self._forgotten: set[bytes] = set()

    def tick(self, now: float, held: Mapping[Partition, int]) -> None:
        """Read new requests, and emit those of the `held` partitions that are due.

        `held` has the epoch of each partition that the task may emit from.
        """
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECS
        if self._in_epochs and held.items() - self._held.items():
            # The transactions in which the previous owner ended requests may still be open.
            self._reader.ask_end()
        self._held = held
        self._take_notice(self._reader.read())
        if not self._reader.at_end:
            return
        mine, unix_ms = set(held), self._unix() * 1000
        self._stages.look(self._open.values(), unix_ms)
        self._forget_failures(mine)
        # Requests of other partitions are left to their owners.
        for place in [place for place in self._under_way if place[0] not in mine]:
            del self._under_way[place]
        for key, order in self._open.items():
            partition = Partition(order.topic, order.partition)
            if (
                key in self._ended
                or partition not in mine
                or (partition, order.offset) in self._under_way
            ):
                continue
            replay = _Replay(
                key, order, KafkaMessageId(partition, order.offset, REPLAYED, order.attempts + 1)
            )
            if why_not := self._stages.stopped(order):
                self._end(replay, f"stopped: {why_not}")
            elif self._collector.capacity <= 0:
                return
            elif order.after <= unix_ms and self._stages.may_begin(order, unix_ms):
                self._begin(replay)

    def ack(self, id: KafkaMessageId) -> None:
        """Complete a tree of a replayed message."""
        replay = None if self._in_epochs else self._of(id)
        if replay is not None:
            replay.trees -= 1
            if not replay.trees:
                self._discard(replay)

    def fail(self, id: KafkaMessageId) -> None:
        """Fail a replayed message: it becomes a dead letter again."""
        replay = self._of(id)
        if replay is not None:
            self._bury(replay, "failed again when it was replayed", why_failed(self._collector))

    def gave_up(self, id: KafkaMessageId) -> LetterContent:
        """Fail a replayed message of the current epoch, one of whose tuples is too large.

        Returns the content of the tuple's letter.
        """
        replay = self._emitted.get(id)
        if replay is None:
            return {}
        order = replay.order
        if replay.trees:
            replay.trees = 0
            self._end(replay, "failed again: a tuple does not fit into a record", failed=True)
        content = LetterContent(replays=order.replays)
        if replay.tuples == 1:
            content |= {
                "key": order.key,
                "value": order.value,
                "headers": order.headers,
                "timestamp": order.timestamp,
            }
        return content

    def before_commit(self) -> None:
        """End the replays of the current epoch."""
        emitted, self._emitted = self._emitted, {}
        for replay in emitted.values():
            if replay.trees:
                self._discard(replay)

    def close(self) -> None:
        self._reader.close()

    def _of(self, id: KafkaMessageId) -> _Replay | None:
        replay = self._under_way.get((id.partition, id.offset))
        return replay if replay is not None and replay.id == id and replay.trees else None

    def _take_notice(self, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
        for key, value in records:
            # Skip the records of other spouts and of other writers.
            if key is None or not key.endswith(self._suffix):
                continue
            try:
                if key.startswith(FAILED):
                    self._stages.take_notice(key, value)
                    self._forgotten.discard(key)
                    continue
                self._open.pop(key, None)
                if value is None:
                    self._ended.discard(key)
                else:
                    self._open[key] = decode_request(value)
            except FrameError as error:
                self._collector.report_error(error)

    def _forget_failures(self, held: set[Partition]) -> None:
        for key in self._stages.needless(held):
            if key not in self._forgotten:
                self._forgotten.add(key)
                self._write(
                    self._topology.orders_topic, key, None, partial(self._failure_forgotten, key)
                )

    def _failure_forgotten(self, key: bytes, error: object | None, _: object) -> None:
        if error is not None:
            self._forgotten.discard(key)

    def _begin(self, replay: _Replay) -> None:
        order = replay.order
        if self._refuses:
            self._end(replay, f"refused: {self._refuses}")
            return
        try:
            tuples: list[Values] = list(self._deserialize(order.message) or ())
        except NotYetError:
            return
        except Exception as error:  # noqa: BLE001 - a user's scheme may raise anything
            self._start(replay, 0)
            reason = f"cannot be deserialized: {type(error).__name__}: {error}"
            self._bury(replay, reason, (UNDECODABLE, note_of(0, error)))
            return
        self._start(replay, len(tuples))
        if not tuples:
            self._discard(replay)
            return
        try:
            emit_message(self._collector, tuples, replay.id, self._stream)
        except Exception as error:  # noqa: BLE001 - user groupings may raise anything
            self._bury(
                replay, explain_unemittable(tuples, error), (kind_of(error), note_of(0, error))
            )

    def _start(self, replay: _Replay, trees: int) -> None:
        """Register the replay before it is emitted, because an ack may arrive during the emit."""
        replay.tuples = replay.trees = trees
        if not self._in_epochs:
            self._under_way[replay.id.partition, replay.id.offset] = replay
        elif trees:
            self._ended.add(replay.key)
            self._emitted[replay.id] = replay

    def _bury(self, replay: _Replay, reason: str, cause: Cause) -> None:
        order, replay.trees = replay.order, 0
        kind, error = cause
        end = partial(self._end, replay, f"failed again: {reason}", failed=True)
        self._collector.dead_letter(
            reason,
            value=order.value,
            key=order.key,
            topic=order.topic,
            partition=order.partition,
            offset=order.offset,
            attempts=replay.id.attempt,
            kind=kind,
            error=error,
            headers=order.headers,
            timestamp=order.timestamp,
            replays=order.replays,
            on_stored=None if self._in_epochs else end,
        )
        if self._in_epochs:
            end()

    def _discard(self, replay: _Replay) -> None:
        """Delete the letter before the request ends, because after that no task would delete it."""
        self._write(
            self._topology.dead_letters_topic, replay.key, None, partial(self._discarded, replay)
        )

    def _discarded(self, replay: _Replay, error: object | None, _: object) -> None:
        if error is None:
            self._end(replay, "done")
        else:
            # The message is emitted again later.
            self._give_up_for_now(replay, error)

    def _end(self, replay: _Replay, outcome: str, *, failed: bool = False) -> None:
        self._ended.add(replay.key)
        self._under_way.pop((replay.id.partition, replay.id.offset), None)
        order = replay.order
        event = Event(
            at=int(self._unix() * 1000),
            who=self._who,
            verb="replay",
            what=f"{order.number} ({order.topic}/{order.partition}/{order.offset})",
            note=f"requested by {order.who}",
            outcome=outcome,
        )
        self._write(self._topology.events_topic, None, encode_event(event), lambda error, _: None)
        # Kafka must have the failure first, because a task that reads the end of the stage has to
        # know the stage's result.
        if failed and order.batch:
            key = failure_key(order, replay.key)
            self._write(
                self._topology.orders_topic,
                key,
                encode_failure(order),
                partial(self._failure_told, replay),
            )
        else:
            self._end_order(replay)

    def _failure_told(self, replay: _Replay, error: object | None, record: object) -> None:
        if error is None:
            self._end_order(replay)
        else:
            self._order_ended(replay, error, record)

    def _end_order(self, replay: _Replay) -> None:
        self._write(
            self._topology.orders_topic, replay.key, None, partial(self._order_ended, replay)
        )

    def _order_ended(self, replay: _Replay, error: object | None, _: object) -> None:
        if error is not None:
            self._ended.discard(replay.key)
            self._give_up_for_now(replay, error)

    def _give_up_for_now(self, replay: _Replay, error: object) -> None:
        self._under_way.pop((replay.id.partition, replay.id.offset), None)
        self._collector.report_error(
            BrokerError(
                f"Kafka did not store the end of the replay of {replay.order.number}: {error}"
            )
        )

    def _write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        written: Callable[[object | None, object], None],
    ) -> None:
        try:
            self._writer.write(topic, key, value, written)
        except BrokerError as error:
            written(error, None)
