"""The numbers of a task's epochs. External states use them as their *txid*."""

from typing import Final

from kstorm.topology import KeyValueState

_TXID: Final = "x/txid"


class EpochCounter:
    """Counts a task's epochs.

    The number is in the task's own state and thus in the epoch's transaction. An epoch that was not
    committed is therefore repeated with the same number, even in another process.
    """

    def __init__(self) -> None:
        self.ended = 0
        """Number of the last epoch that has ended, or 0."""

    def begin(self, state: KeyValueState) -> None:
        """Read the number from the task's own state."""
        self._state = state
        self.ended = state.get(_TXID, 0)

    @property
    def current(self) -> int:
        """The number of the current epoch."""
        return self.ended + 1

    def end(self) -> None:
        """End the current epoch."""
        self.ended = self.current
        self._state.put(_TXID, self.ended)
