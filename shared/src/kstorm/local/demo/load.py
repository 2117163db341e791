"""The main part of the demo: messages flow, processes die, and it waits until every tree is complete."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import psutil
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from kstorm.errors import LocalError
from kstorm.kafka.offsets import StoredOffset
from kstorm.kafka.ports import Partition
from kstorm.local.cluster import LocalProcesses
from kstorm.local.demo.breaking import Breaker
from kstorm.local.demo.feed import Feed
from kstorm.local.demo.report import Load, Usage
from kstorm.local.processes import ManagedProcess
from kstorm.local.view import LiveView
from kstorm.local.watch import Snapshot, Watch

_LEAD_SECS: Final = 1.5
_LEAD_LEAST: Final = 500
# Messages are produced ahead of the completed trees by what is completed in so many seconds, or by this many. That keeps
# every process busy; any more would only wait, and latency would tell of the waiting.

_LOOK_SECS: Final = 0.3
_USAGE_SECS: Final = 5.0
_STALL_SECS: Final = 180.0
_MOST_STARTS: Final = 6


class UsageLog:
    """CPU and memory of processes, sampled."""

    def __init__(self) -> None:
        self.processes: list[ManagedProcess] = []
        """Whom to look at; in the order in which they are to be shown."""
        self._peaks: dict[str, int] = {}
        self._next = 0.0

    def sample(self, now: float | None = None) -> None:
        """Look at all; with `now` only if some seconds have passed, since a look costs some milliseconds of CPU."""
        if now is not None and now < self._next:
            return
        self._next = (now or 0.0) + _USAGE_SECS
        for process in filter(lambda process: process.alive, self.processes):
            self._peaks[process.name] = max(process.rss(), self._peaks.get(process.name, 0))
            process.cpu_seconds()

    def result(self) -> dict[str, Usage]:
        """By process, and `demo` for this very one."""
        found = {
            process.name: Usage(process.cpu_seconds(), self._peaks.get(process.name, 0))
            for process in self.processes
        }
        own = psutil.Process()
        times = own.cpu_times()
        return {**found, "demo": Usage(times.user + times.system, own.memory_info().rss)}


class LoadRun:
    """One such run; call `run` once, with every process ready and the feed not started."""

    def __init__(
        self,
        processes: LocalProcesses,
        make_feed: Callable[[Callable[[], int]], Feed],
        messages: int,
        victims: Sequence[str],
        usage: UsageLog,
    ) -> None:
        """`make_feed` is called with the function that tells how many messages may be out."""
        self.breaker = Breaker(processes, victims, messages)
        self.feed = make_feed(self._allowed)
        self._processes, self._messages, self._usage = processes, messages, usage
        self._watch = Watch(processes)
        self._acked, self._lead = 0, _LEAD_LEAST
        self._began = self._moved = time.monotonic()
        self._movement: tuple[int, ...] = ()
        self._half: tuple[int, float] | None = None

    def run(self, view: LiveView, say: Callable[[str], None], done: Callable[[], bool]) -> Load:
        """Return when all is produced, everybody killed is back, and `done()`, which says that all is complete.

        Raises `KstormError` if nothing moves any more.
        """
        self._began = self._moved = time.monotonic()
        completed_at: float | None = None
        self.feed.start()
        try:
            while True:
                snapshot = self._look(view, say)
                if completed_at is None and snapshot.acked >= self._messages:
                    completed_at = time.monotonic()
                    say("every tree is complete; the spout is about to store so")
                if not self.feed.is_alive() and self.breaker.done and done():
                    break
                time.sleep(_LOOK_SECS)
        finally:
            self.feed.stop()
        self._usage.sample()
        return self._result(self._look(view, say), completed_at)

    def _allowed(self) -> int:
        return min(self._acked + self._lead, self.breaker.may_be_produced)

    def _look(self, view: LiveView, say: Callable[[str], None]) -> Snapshot:
        snapshot, now = self._watch.look(), time.monotonic()
        self._acked, self._lead = (
            snapshot.acked,
            max(_LEAD_LEAST, int(_LEAD_SECS * snapshot.acked_per_second)),
        )
        if self._half is None and snapshot.acked >= self._messages / 2:
            self._half = snapshot.acked, now
        for text in self.breaker.step(snapshot.acked, now):
            say(text)
        self.feed.check()
        self._check_moves(snapshot, now)
        view.show(snapshot, self._notes())
        self._usage.sample(now)
        return snapshot

    def _notes(self) -> list[str]:
        gone = [death.worker.name for death in self.breaker.deaths if death.back_after is None]
        return [f"killed, and coming back: {', '.join(gone)}"] if gone else []

    def _check_moves(self, snapshot: Snapshot, now: float) -> None:
        for worker in self._processes.workers:
            if worker.process.starts >= _MOST_STARTS:
                raise LocalError(
                    f"{worker.name} has died {_MOST_STARTS - 1} times; its log {worker.process.log_path} ends with:\n"
                    f"{worker.process.log_tail(5)}"
                )
        movement = (
            self.feed.handed_over,
            snapshot.acked,
            snapshot.failed,
            len(self.breaker.deaths),
        )
        if movement != self._movement:
            self._movement, self._moved = movement, now
        elif now - self._moved > _STALL_SECS:
            raise LocalError(
                f"nothing has moved for {_STALL_SECS:g} s: {snapshot.acked} of {self._messages} trees are complete"
                f"{', not ready: ' + ', '.join(snapshot.down) if snapshot.down else ''}; the logs are in "
                f"{self._processes.workdir}"
            )

    def _result(self, snapshot: Snapshot, completed_at: float | None) -> Load:
        acked, at = self._half or (snapshot.acked, time.monotonic())
        return Load(
            messages=self._messages,
            acked=snapshot.acked,
            failed=snapshot.failed,
            emitted=snapshot.emitted,
            seconds=(completed_at or time.monotonic()) - self._began,
            undisturbed_per_second=acked / (at - self._began),
            complete_latency_counts=snapshot.complete_latency_counts,
            deaths=self.breaker.deaths,
        )


def offsets_stored(client: KazooClient, path: str, topic: str, ends: Mapping[int, int]) -> bool:
    """Whether the spout has stored that each partition is done up to its end; `ends` is by partition."""
    for number, end in ends.items():
        node = f"{path}/partition_{number}"
        try:
            data, _ = client.get(node)
        except KazooException:
            return False
        if not data or StoredOffset.from_json(data, Partition(topic, number), node).offset < end:
            return False
    return True
