"""The numbers of a task's epochs, which states outside know as *txid*."""

from typing import Final

from kstorm.topology import KeyValueState

_TXID: Final = "x/txid"


class Epochs:
    """Counts a task's epochs. The number is in the task's own state, so in the epoch's transaction: an epoch that was not committed
    comes again under its number, by whichever process."""

    def __init__(self) -> None:
        self.ended = 0
        """The number of the last one that has ended; 0 if none has."""

    def begin(self, state: KeyValueState) -> None:
        """The task has its own state."""
        self._state = state
        self.ended = state.get(_TXID, 0)

    @property
    def current(self) -> int:
        """The number of the one under way."""
        return self.ended + 1

    def end(self) -> None:
        """The one under way is complete."""
        self.ended = self.current
        self._state.put(_TXID, self.ended)
