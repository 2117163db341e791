"""The metrics of a spout task's partitions, and the messages that hold a partition back."""

import heapq
import logging
from typing import Final

from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.coordinator import PartitionCoordinator
from kstorm.kafka.failures import Failure
from kstorm.kafka.ports import Partition, SourceReader

log = logging.getLogger(__name__)

_MOST_FAILING: Final = 5


class PartitionMetrics:
    """Computes the metrics of one spout task, and logs them."""

    def __init__(
        self,
        config: SpoutConfig,
        coordinator: PartitionCoordinator,
        source: SourceReader,
        now: float,
    ) -> None:
        self._config, self._coordinator, self._source = config, coordinator, source
        self._next_bucket = now + config.metrics_time_bucket_size_in_secs
        self._throttled: set[Partition] = set()
        self._unread_since: dict[Partition, float] = {}

    def metrics(self, now: float) -> dict[str, float]:
        """Return sums over the task's partitions.

        - `partitions`: partitions being read.
        - `lag`: offsets from the lowest unfinished message to the log's end.
        - `pending`: unfinished messages.
        - `retries`: pending messages that wait to be emitted again.
        - `throttled`: partitions that have reached `max_uncommitted_offsets`.
        - `oldest_pending_seconds`: age of the oldest unfinished message. Not a sum.
        - `most_attempts`: failed attempts at the unfinished message that failed most often. Not a
          sum.
        """
        managers = list(self._coordinator.all_managers())
        ends = [(manager, self._source.end_offset(manager.partition)) for manager in managers]
        ages = (manager.oldest_pending_age(now) for manager in managers)
        return {
            "partitions": len(managers),
            "lag": sum(max(0, end - m.last_completed_offset) for m, end in ends if end is not None),
            "pending": sum(m.pending for m in managers),
            "retries": sum(m.failures.waiting for m in managers),
            "throttled": sum(m.at_limit for m in managers),
            "oldest_pending_seconds": max(ages, default=0.0),
            "most_attempts": max((failure.attempts for failure in self.failing(1)), default=0),
        }

    def failing(self, count: int = _MOST_FAILING) -> list[Failure]:
        """Return the unfinished messages that failed most often."""
        found = [
            failure
            for manager in self._coordinator.all_managers()
            for failure in manager.failures.worst(count)
        ]
        return heapq.nlargest(count, found, key=lambda failure: failure.attempts)

    def oldest_unfinished_seconds(self, unix_ms: float) -> dict[Partition, float]:
        """Return the age of each partition's oldest unfinished message, by the message's timestamp.

        The age is 0 if all messages are finished. For an unread message, or one without a
        timestamp, it is the time since this task first saw it.
        """
        found = {}
        for manager in self._coordinator.all_managers():
            place, oldest = manager.partition, manager.oldest_unfinished
            end = self._source.end_offset(place)
            if oldest is None and (end is None or end <= manager.last_completed_offset):
                self._unread_since.pop(place, None)
                found[place] = 0.0
                continue
            kind, stamp = (0, 0) if oldest is None else oldest.timestamp()
            since = stamp if kind else self._unread_since.setdefault(place, unix_ms)
            found[place] = max(0.0, unix_ms - since) / 1000
        return found

    def log(self, now: float) -> None:
        """Log the metrics once per bucket.

        Also log once when an old message blocks a partition, because the partition would otherwise
        look idle.
        """
        throttled = {m.partition: m for m in self._coordinator.all_managers() if m.at_limit}
        for partition in throttled.keys() - self._throttled:
            manager = throttled[partition]
            log.warning(
                "%s emits nothing new: max_uncommitted_offsets=%d is reached, because offset "
                "%d has been unfinished for %.0f s",
                partition,
                self._config.max_uncommitted_offsets,
                manager.last_completed_offset,
                manager.oldest_pending_age(now),
            )
        self._throttled = set(throttled)
        bucket = self._config.metrics_time_bucket_size_in_secs
        if bucket and now >= self._next_bucket:
            self._next_bucket = now + bucket
            found = ", ".join(f"{name} {value:.6g}" for name, value in self.metrics(now).items())
            log.info("the spout of %s: %s", self._config.zk_path, found)
