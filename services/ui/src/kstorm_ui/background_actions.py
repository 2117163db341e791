"""Background actions started from the web UI, with their operator, progress and result.

The last actions of each topology are kept in memory until the web UI exits. The topology's events
record them permanently.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from kstorm.errors import ControlError, KstormError
from kstorm.operations.control.activation import LOOK_SECS
from kstorm_ui import page_formatting

log = logging.getLogger(__name__)

MOST_KEPT: Final = 20
_END_SECS: Final = 5.0
UNDER_WAY: Final = "under way"
DONE: Final = "done"
FAILED: Final = "failed"


class BackgroundAction:
    """A background action. Runs on its own thread, which is the only writer."""

    def __init__(
        self,
        verb: str,
        what: str,
        who: str,
        closing: threading.Event,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self.verb, self.what, self.who = verb, what, who
        self.begun = time.time()
        self.state = UNDER_WAY
        self.said = ""
        """The step that the action waits for, and later its result."""
        self.over = threading.Event()
        """Set once it is done or has failed."""
        self._closing, self._ended = closing, ended

    def wait(self, look: Callable[[], str], secs: float) -> str:
        """Wait like `kstorm.operations.control.activation.Wait`. Raises `ControlError` if the web UI exits."""
        deadline = time.monotonic() + secs
        while (left := look()) and time.monotonic() < deadline:
            self.said = left
            if self._closing.wait(LOOK_SECS):
                raise ControlError(f"the web UI stopped during the wait; {left}")
        return left

    @property
    def closing(self) -> bool:
        """True while the web UI shuts down."""
        return self._closing.is_set()

    def end(self, state: str, said: str) -> None:
        """Mark the action as finished. `said` may still change after that."""
        if not self.over.is_set():
            self.state = state
        self.said = said
        self._ended()
        self.over.set()


Act = Callable[[BackgroundAction], str]
"""Carries out the action and returns its result. Raises `KstormError` on failure."""


class BackgroundActions:
    """Background actions of all topologies.

    `ended` is called on the action's thread, before `over` is set.
    """

    def __init__(self, ended: Callable[[], None] = lambda: None) -> None:
        self._ended = ended
        self._kept: dict[str, list[BackgroundAction]] = {}
        self._threads: set[threading.Thread] = set()
        self._closing = threading.Event()

    def of(self, topology: str) -> Sequence[BackgroundAction]:
        """Return a topology's actions, newest first."""
        return self._kept.get(topology, ())

    def start(self, topology: str, verb: str, what: str, who: str, act: Act) -> BackgroundAction:
        """Start an action. Raises `ControlError` if an action of the same kind is running."""
        kept = self._kept.setdefault(topology, [])
        for other in kept:
            if other.verb == verb and not other.over.is_set():
                raise ControlError(
                    f"{verb}{other.what and f' {other.what}'} is already under way: "
                    f"{other.who} started it at {page_formatting.moment(other.begun)} UTC; "
                    "wait until it is over"
                )
        action = BackgroundAction(verb, what, who, self._closing, self._ended)
        kept.insert(0, action)
        for old in [each for each in kept[MOST_KEPT:] if each.over.is_set()]:
            kept.remove(old)
        thread = threading.Thread(
            target=self._run, args=(action, act), name=f"{verb} {topology}", daemon=True
        )
        self._threads = {each for each in self._threads if each.is_alive()} | {thread}
        thread.start()
        return action

    def close(self) -> None:
        """Make waiting actions give up, so that they record this in their events."""
        self._closing.set()
        deadline = time.monotonic() + _END_SECS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self, action: BackgroundAction, act: Act) -> None:
        try:
            action.end(DONE, act(action))
        except KstormError as error:
            action.end(FAILED, str(error))
        except Exception as error:
            log.exception("%s %s", action.verb, action.what)
            action.end(FAILED, f"{type(error).__name__}: see the web UI's log")
