"""When a failed message is emitted again (Storm's `FailedMsgRetryManager`).

One manager serves one partition. It knows offsets only: the messages stay with the `PartitionManager`. Time is handed
in, in seconds of any monotonic clock.
"""

import heapq
from collections.abc import Callable
from importlib import import_module
from typing import Protocol

from kstorm.errors import ConfigError
from kstorm.kafka.config import SpoutConfig


class FailedMessageRetryManager(Protocol):
    """The policy of retries; name one's own class in `SpoutConfig.failed_message_retry_manager`."""

    def failed(self, offset: int, now: float) -> None:
        """The message failed, for the first time or again, and shall be retried."""
        ...

    def retry_further(self, offset: int) -> bool:
        """Whether a message that just failed may be retried (then `failed` follows) or is given up."""
        ...

    def next_failed_message_to_retry(self, now: float) -> int | None:
        """The offset of a message whose time has come; None if there is none."""
        ...

    def retry_started(self, offset: int) -> None:
        """The message has been emitted again; it is not due before it fails once more."""
        ...

    def done(self, offset: int) -> None:
        """A message that failed before was acked, or given up: forget it."""
        ...


class ExponentialBackoffRetryManager:
    """Waits `initial delay × multiplier^(failures - 1)`, up to a maximum; gives up after a number of retries.

    Of several messages whose time has come, the one with the lowest offset goes first: it is the one that the stored
    offset waits for.
    """

    def __init__(self, config: SpoutConfig) -> None:
        self._initial = config.retry_initial_delay_ms / 1000
        self._multiplier = config.retry_delay_multiplier
        self._longest = config.retry_delay_max_ms / 1000
        self._limit = config.retry_limit
        self._failures: dict[int, int] = {}
        self._delayed: list[tuple[float, int]] = []  # heap: when due, offset
        self._due: list[int] = []  # heap: offsets whose time has come

    def failed(self, offset: int, now: float) -> None:
        """Counts the failure, and lays the message by until its delay is over."""
        failures = self._failures.get(offset, 0) + 1
        self._failures[offset] = failures
        heapq.heappush(self._delayed, (now + self._delay(failures), offset))

    def retry_further(self, offset: int) -> bool:
        """Whether the message had fewer retries than the limit."""
        return self._limit < 0 or self._failures.get(offset, 0) < self._limit

    def next_failed_message_to_retry(self, now: float) -> int | None:
        """The lowest offset whose delay is over."""
        while self._delayed and self._delayed[0][0] <= now:
            heapq.heappush(self._due, heapq.heappop(self._delayed)[1])
        return self._due[0] if self._due else None

    def retry_started(self, offset: int) -> None:
        """Takes the message out of those that are due; `next_failed_message_to_retry` has just named it."""
        heapq.heappop(self._due)

    def done(self, offset: int) -> None:
        """Forgets the failures of the message."""
        self._failures.pop(offset, None)

    def _delay(self, failures: int) -> float:
        try:
            return min(self._initial * self._multiplier ** (failures - 1), self._longest)
        except OverflowError:
            return self._longest


def make_retry_manager(config: SpoutConfig) -> FailedMessageRetryManager:
    """The retry manager that a config names. Raises `ConfigError` if there is no such class."""
    named = config.failed_message_retry_manager
    if not isinstance(named, str):
        return named(config)
    module, _, attribute = named.partition(":")
    try:
        manager: Callable[[SpoutConfig], FailedMessageRetryManager] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"failed_message_retry_manager is {named!r}, which cannot be imported ({error}): give it as module:class"
        ) from None
    return manager(config)
