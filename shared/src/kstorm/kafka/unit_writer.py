"""Writes records of sinks and spouts as results of the work in progress."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from kstorm.core.engine.bolt_engine import CurrentWork
from kstorm.core.engine.units import Unit
from kstorm.core.outbox import Outbox
from kstorm.core.outgoing import OutgoingRecord
from kstorm.kafka.epoch_writer import EpochTask, EpochWriter
from kstorm.kafka.ports import (
    Headers,
    KafkaPorts,
    OnBatchDelivery,
    OnDelivery,
    RecordColumn,
    RecordWriter,
)


def for_sinks(ports: KafkaPorts, work: CurrentWork, *, exactly_once: bool) -> KafkaPorts:
    """Return the clients of a process with bolts, for which the input offset waits for the records
    of sinks.

    With exactly-once processing, records are written in the process's transactions instead.
    """
    return replace(
        ports,
        open_shared_writer=(
            (lambda: EpochWriter(cast(EpochTask, work.task)))
            if exactly_once
            else lambda: UnitWriter(work, ports.open_shared_writer(), shared=True)
        ),
        open_writer=lambda properties: UnitWriter(work, ports.open_writer(properties)),
    )


def for_exact_spouts(ports: KafkaPorts, outbox: Outbox) -> KafkaPorts:
    """Return the clients of a process with exactly-once spouts, for records that are committed with
    their tuples."""
    return replace(ports, open_epoch_writer=lambda: EpochWriter(_SpoutRecords(outbox)))


class _SpoutRecords:
    """An `EpochTask` that writes to kstorm's own topics, which have one partition."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def write(
        self,
        topic: str,
        keys: RecordColumn,
        values: RecordColumn,
        headers: Sequence[Headers | None] | None,
    ) -> None:
        for key, value in zip(keys, values, strict=True):
            self._outbox.records.append(OutgoingRecord(topic, 0, value, key))


class UnitWriter:
    """A `RecordWriter` whose records count as effects of the work in progress."""

    def __init__(self, work: CurrentWork, writer: RecordWriter, *, shared: bool = False) -> None:
        self.writer = writer
        """The writer that it uses."""
        self._work, self._shared = work, shared

    async def close(self) -> None:
        # A shared writer does not belong to the bolt.
        if not self._shared:
            await self.writer.close()

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        on_delivery: OnDelivery,
        headers: Headers | None = None,
    ) -> None:
        unit = self._work.unit
        if unit is None:
            self.writer.write(topic, key, value, on_delivery, headers)
            return
        self.writer.write(topic, key, value, partial(_delivered, on_delivery, unit), headers)
        unit.add()

    def write_batch(
        self,
        topic: str,
        keys: RecordColumn,
        values: RecordColumn,
        on_done: OnBatchDelivery,
        headers: Sequence[Headers] | None = None,
    ) -> None:
        unit = self._work.unit
        if unit is None:
            self.writer.write_batch(topic, keys, values, on_done, headers)
            return
        unit.add()
        self.writer.write_batch(
            topic, keys, values, partial(self._batch_done, on_done, unit), headers
        )

    def _batch_done(self, on_done: OnBatchDelivery, unit: Unit, errors: Sequence[object]) -> None:
        # Records that the bolt writes in response, such as single retries, belong to the same unit.
        at_hand, self._work.unit = self._work.unit, unit
        try:
            on_done(errors)
        finally:
            self._work.unit = at_hand
            unit.delivered()


def _delivered(on_delivery: OnDelivery, unit: Unit, error: object | None, record: object) -> None:
    on_delivery(error, record)
    unit.delivered()
