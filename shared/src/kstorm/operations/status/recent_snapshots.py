"""Keep the snapshots of the last seconds, and compare the newest one with the oldest."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from kstorm.operations.status.snapshots import ComponentChange, TopologySnapshot, compare

WINDOW_SECS: Final = 8.0
"""Age of the oldest snapshot that is compared."""


class RecentSnapshots:
    """Snapshots of one topology."""

    def __init__(self) -> None:
        self._looks: deque[TopologySnapshot] = deque()

    def learn(self, look: TopologySnapshot) -> Sequence[ComponentChange]:
        """Add a snapshot. Return the changes since the oldest one."""
        self._looks.append(look)
        while len(self._looks) > 2 and self._looks[1].at <= look.at - WINDOW_SECS:
            self._looks.popleft()
        return compare(self._looks[0], look)
