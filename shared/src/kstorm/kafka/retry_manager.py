"""The protocol of retry policies (Storm's `FailedMsgRetryManager`).

One manager serves one partition. It handles only offsets. The messages stay in the
`PartitionManager`. Times are seconds of any monotonic clock.
"""

from typing import Protocol


class FailedMessageRetryManager(Protocol):
    """A retry policy. Set your own class in `SpoutConfig.failed_message_retry_manager`.

    A message waits from `failed` to `retry_started` or `done`.
    """

    def failed(self, offset: int, now: float) -> None:
        """Schedule a retry of a message that failed, for the first time or again."""

    def retry_further(self, offset: int) -> bool:
        """Return True to retry a failed message (`failed` follows), or False to give up the
        message."""

    def next_failed_message_to_retry(self, now: float) -> int | None:
        """Return the offset of a waiting message that is due, or None."""

    def retry_started(self, offset: int) -> None:
        """Note that the message is being emitted again. It is not due until it fails again."""

    def done(self, offset: int) -> None:
        """Forget a message that failed before and was now acked or given up."""
