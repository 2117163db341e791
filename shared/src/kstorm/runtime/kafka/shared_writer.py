"""One producer for all tasks of a process that write with the process's own properties.

Each producer has several threads and connections, and a process may run many spout tasks.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from kstorm.kafka.ports import Headers, OnBatchDelivery, OnDelivery, RecordColumn, RecordWriter

_CLOSE_SECS: Final = 5.0
_LOOK_SECS: Final = 0.01


class SharedWriters:
    """Lends one writer, which is open while somebody uses it."""

    def __init__(self, open_writer: Callable[[], RecordWriter]) -> None:
        self._open, self._users = open_writer, 0
        self._writer: RecordWriter | None = None

    def lend(self) -> RecordWriter:
        if self._writer is None:
            self._writer = self._open()
        self._users += 1
        return _LentWriter(self, self._writer)

    async def give_back(self) -> None:
        """Close the writer after its last user."""
        self._users -= 1
        if not self._users and self._writer is not None:
            writer, self._writer = self._writer, None
            await writer.close()


class _LentWriter:
    """A `RecordWriter`, whose `close` waits only for its own records."""

    def __init__(self, owner: SharedWriters, writer: RecordWriter) -> None:
        self._owner, self._writer = owner, writer
        self._pending = 0
        self._closed = False

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        on_delivery: OnDelivery,
        headers: Headers | None = None,
    ) -> None:
        def delivered(error: object | None, record: object) -> None:
            self._pending -= 1
            on_delivery(error, record)

        self._writer.write(topic, key, value, delivered, headers)
        self._pending += 1

    def write_batch(
        self,
        topic: str,
        keys: RecordColumn,
        values: RecordColumn,
        on_done: OnBatchDelivery,
        headers: Sequence[Headers] | None = None,
    ) -> None:
        def done(errors: Sequence[object]) -> None:
            self._pending -= 1
            on_done(errors)

        self._writer.write_batch(topic, keys, values, done, headers)
        self._pending += 1

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _CLOSE_SECS
        while self._pending and loop.time() < deadline:
            await asyncio.sleep(_LOOK_SECS)
        await self._owner.give_back()
