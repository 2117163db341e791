"""Numbers of dead letters and events for the tabs, read in the background.

Pages never wait for them. A topic is read again only if its end has moved, and at most every few
seconds while someone looks.
"""

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Final

import msgspec

from kstorm.errors import KstormError
from kstorm.events import Event
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.single_partition_topic import bounds
from kstorm.topology.names import NamesOf
from kstorm_ui.sources.newest_letters import events_of, letters_of
from kstorm_ui.topology_state import TopologyState
from kstorm_ui.ui_settings import settings_of

log = logging.getLogger(__name__)

_EVERY_SECS: Final = 6.0
_AT_ONCE: Final = 2


class DeskCounts(msgspec.Struct, frozen=True):
    letters: int | None = None
    """Current dead letters. None if not known."""
    older: bool = False
    """True if older dead letters exist that were not counted."""
    events: Sequence[Event] = ()
    """The operators' events, oldest first."""
    problem: str = ""
    """Reason why the numbers are not known, or ""."""


class _Known:
    def __init__(self) -> None:
        self.counts = DeskCounts()
        self.asked = -inf
        self.running = False
        self.ends: tuple[object, object] = (object(), object())


class DeskReader:
    """Numbers by topology."""

    def __init__(self, every: float = _EVERY_SECS) -> None:
        self._every = every
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = ThreadPoolExecutor(
            _AT_ONCE, thread_name_prefix="counting"
        )

    def counts(self, state: TopologyState) -> DeskCounts:
        """Return the last known numbers, and start to read newer ones if they are old."""
        settings = settings_of(state.bootstrap, state.zookeeper)
        with self._lock:
            known = self._known.setdefault(state.name, _Known())
            now = time.monotonic()
            due = not known.running and now - known.asked >= self._every
            if due and settings is not None and self._pool is not None:
                known.running, known.asked = True, now
                self._pool.submit(self._read, known, settings, state.name)
        return known.counts

    def forget(self) -> None:
        """Read again at the next request, because something was changed."""
        with self._lock:
            for known in self._known.values():
                known.asked = -inf

    def close(self) -> None:
        """Start no more reads. A running read finishes."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _read(self, known: _Known, settings: Settings, topology: str) -> None:
        try:
            self._refresh(known, settings, topology)
        except KstormError as error:
            known.counts = msgspec.structs.replace(known.counts, problem=str(error))
        except Exception:
            log.exception("dead letters and events of %s could not be counted", topology)
        finally:
            known.running = False

    def _refresh(self, known: _Known, settings: Settings, topology: str) -> None:
        names = NamesOf(topology)
        letters_end = bounds(settings, names.dead_letters_topic)
        events_end = bounds(settings, names.events_topic)
        counts = msgspec.structs.replace(known.counts, problem="")
        if letters_end != known.ends[0]:
            found = letters_of(settings, topology)
            counts = msgspec.structs.replace(counts, letters=len(found.letters), older=found.older)
        if events_end != known.ends[1]:
            counts = msgspec.structs.replace(
                counts, events=list(events_of(settings, topology))[::-1]
            )
        known.counts, known.ends = counts, (letters_end, events_end)
