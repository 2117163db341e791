"""The default retry policy of a `KafkaSpout`, and the loader of custom policies.

One manager serves one partition. Times are seconds of any monotonic clock.
"""

import heapq
from collections.abc import Callable
from importlib import import_module

from kstorm.errors import ConfigError
from kstorm.fitting import checked
from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.retry_manager import FailedMessageRetryManager


class ExponentialBackoffRetryManager:
    """Waits `initial delay × multiplier^(failures - 1)`, up to a maximum. The number of retries is
    limited.

    If several messages are due, the one with the lowest offset goes first, because the stored
    offset waits for it. If a message fails again while it waits, its wait starts again.
    """

    @checked()
    def __init__(self, config: SpoutConfig) -> None:
        self._initial = config.retry_initial_delay_ms / 1000
        self._multiplier = config.retry_delay_multiplier
        self._longest = config.retry_delay_max_ms / 1000
        self._limit = config.retry_limit
        self._failures: dict[int, int] = {}
        self._waits: dict[int, float] = {}
        """The due time of each waiting message, by offset. Heap entries with another time are
        ignored."""
        # Heap of due time and offset.
        self._delayed: list[tuple[float, int]] = []
        # Heap of due offsets.
        self._due: list[int] = []

    def failed(self, offset: int, now: float) -> None:
        """Count the failure and schedule the retry after the delay."""
        failures = self._failures.get(offset, 0) + 1
        self._failures[offset] = failures
        self._waits[offset] = due = now + self._delay(failures)
        heapq.heappush(self._delayed, (due, offset))

    def retry_further(self, offset: int) -> bool:
        """Return True if the message has had fewer retries than the limit."""
        return self._limit < 0 or self._failures.get(offset, 0) < self._limit

    def next_failed_message_to_retry(self, now: float) -> int | None:
        """Return the lowest offset that is due, or None."""
        delayed, due, waits = self._delayed, self._due, self._waits
        while delayed and delayed[0][0] <= now:
            heapq.heappush(due, heapq.heappop(delayed)[1])
        while due and waits.get(due[0], _NEVER) > now:
            # The message was emitted or given up in the meantime, or has failed again.
            offset = heapq.heappop(due)
            if offset in waits:
                heapq.heappush(delayed, (waits[offset], offset))
        return due[0] if due else None

    def retry_started(self, offset: int) -> None:
        """End the wait of a message. Raises `ValueError` if it does not wait."""
        if self._waits.pop(offset, None) is None:
            raise ValueError(
                f"offset {offset} is not waiting for its retry: it did not fail, or was retried "
                "since"
            )

    def done(self, offset: int) -> None:
        """Forget the message."""
        self._failures.pop(offset, None)
        self._waits.pop(offset, None)

    def _delay(self, failures: int) -> float:
        try:
            return min(self._initial * self._multiplier ** (failures - 1), self._longest)
        except OverflowError:
            return self._longest


_NEVER = float("inf")


def make_retry_manager(config: SpoutConfig) -> FailedMessageRetryManager:
    """Create the config's retry manager. Raises `ConfigError` if it cannot be imported."""
    named = config.failed_message_retry_manager
    if not isinstance(named, str):
        return named(config)
    module, _, attribute = named.partition(":")
    try:
        manager: Callable[[SpoutConfig], FailedMessageRetryManager] = getattr(
            import_module(module), attribute
        )
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"failed_message_retry_manager is {named!r}, which cannot be imported ({error}): give "
            "it as module:class"
        ) from None
    return manager(config)
