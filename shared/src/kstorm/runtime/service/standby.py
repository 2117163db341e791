"""A process without a task, because there are more processes than tasks, stands by until another
one dies. It logs this once."""

import time
from typing import Final

from kstorm.runtime.base.log import Logger

_PATIENCE_SECS: Final = 10.0


class Standby:
    """Watches whether a process has tasks."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._said = False
        self._since = time.monotonic()

    def look(self, now: float, *, idle: bool) -> None:
        """Check the process. Called every few milliseconds."""
        if not idle:
            self._since = now
        elif now - self._since > _PATIENCE_SECS and not self._said:
            self._said = True
            self._log.warning(
                "standing_by",
                why="the group has more processes than tasks, or they are still being moved",
            )
