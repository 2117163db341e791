"""The failed messages of one partition: why each failed, and when it is retried."""

import heapq

from msgspec import Struct

from kstorm.core.dead_letters import FAILED, TIMED_OUT, kind_of_note
from kstorm.core.failure_notes import note_of
from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.ports import Partition
from kstorm.kafka.retry import make_retry_manager
from kstorm.topology import Note, SpoutOutputCollector

Cause = tuple[str, Note | None]
"""The kind of a dead letter, and the error, if known."""


class Failure(Struct, frozen=True):
    """A message that failed, as the web UI and `kstorm causes` show it."""

    topic: str
    partition: int
    offset: int
    attempts: int
    """Number of failed attempts."""
    error: str = ""
    """Type name of the last error. Empty if it is unknown, or if a bolt failed the tuple without
    one."""
    where: str = ""
    """File and line that raised it, if known."""
    timed_out: bool = False
    """True if the last attempt timed out."""


class Failures:
    """The failed messages of one partition that are not finished, by offset."""

    def __init__(
        self, partition: Partition, config: SpoutConfig, collector: SpoutOutputCollector
    ) -> None:
        self.waiting = 0
        """Number of messages that wait to be emitted again."""
        self._partition, self._collector = partition, collector
        self._by_offset: dict[int, Failure] = {}
        self._policy = make_retry_manager(config)
        self._max_behind = config.max_offset_behind

    def failed(
        self, offset: int, attempts: int, next_offset: int, now: float
    ) -> tuple[str, Cause] | None:
        """Schedule the message's retry. If it must be given up instead, return the reason and the
        cause."""
        note = self._collector.why_failed
        if self._max_behind is not None and offset < next_offset - self._max_behind:
            reason = f"failed, and is more than max_offset_behind={self._max_behind} offsets behind"
            return reason, why_failed(self._collector)
        if note is not None and note.permanent:
            reason = f"failed, and would fail again: {note.type}: {note.message}"
            return reason, (kind_of_note(note), note)
        try:
            if not self._policy.retry_further(offset):
                return "failed, and its retries are used up", why_failed(self._collector)
            self._policy.failed(offset, now)
        except Exception as error:  # noqa: BLE001 - custom policy; keep the message
            reason = f"failed, and its retry manager raised {type(error).__name__}: {error}"
            return reason, (FAILED, note_of(0, error))
        self.waiting += 1
        shown = note or Note(0)
        self._by_offset[offset] = Failure(
            *self._partition, offset, attempts, shown.type, shown.where, self._collector.timed_out
        )
        return None

    def due(self, now: float) -> int | None:
        """Return the offset of a message whose retry is due, or None."""
        return self._policy.next_failed_message_to_retry(now)

    def retry_started(self, offset: int) -> None:
        self._policy.retry_started(offset)
        self.waiting -= 1

    def done(self, offset: int) -> None:
        """Forget a message that is finished."""
        self._by_offset.pop(offset, None)
        try:
            self._policy.done(offset)
        except Exception as error:  # noqa: BLE001 - custom policy; the message is done
            self._collector.report_error(error)

    def worst(self, count: int) -> list[Failure]:
        """Return the messages that failed most often."""
        return heapq.nlargest(count, self._by_offset.values(), key=lambda one: one.attempts)


def why_failed(collector: SpoutOutputCollector) -> Cause:
    """Return the cause of the current failure, with the failing task's note if known."""
    return TIMED_OUT if collector.timed_out else FAILED, collector.why_failed
