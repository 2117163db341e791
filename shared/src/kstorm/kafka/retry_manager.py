"""When a failed message is emitted again (Storm's `FailedMsgRetryManager`).

One manager serves one partition. It knows offsets only: the messages stay with the `PartitionManager`. Time is handed
in, in seconds of any monotonic clock.
"""

from typing import Protocol


class FailedMessageRetryManager(Protocol):
    """The policy of retries; name one's own class in `SpoutConfig.failed_message_retry_manager`.

    A message waits from `failed` to `retry_started` or `done`.
    """

    def failed(self, offset: int, now: float) -> None:
        """The message failed, for the first time or again, and shall be retried."""
        ...

    def retry_further(self, offset: int) -> bool:
        """Whether a message that just failed may be retried (then `failed` follows) or is given up."""
        ...

    def next_failed_message_to_retry(self, now: float) -> int | None:
        """The offset of a message that waits and whose time has come; None if there is none."""
        ...

    def retry_started(self, offset: int) -> None:
        """The message has been emitted again; it is not due before it fails once more."""
        ...

    def done(self, offset: int) -> None:
        """A message that failed before was acked, or given up: forget it."""
        ...
