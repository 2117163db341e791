"""The main stage of the demo: it sends messages, kills processes, and waits until every tree is
complete."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import psutil
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from kstorm.dev.demo.feed import Feed
from kstorm.dev.demo.kills import Kills
from kstorm.dev.demo.report import LoadResult, Usage
from kstorm.dev.demo.view import SentencesView
from kstorm.dev.failure_causes import cause_in
from kstorm.dev.local_processes import LocalProcesses
from kstorm.dev.processes import ManagedProcess
from kstorm.dev.progress_watch import ProgressSnapshot, ProgressWatch
from kstorm.errors import LocalError
from kstorm.kafka.offsets import StoredOffset
from kstorm.kafka.ports import Partition

_LEAD_SECS: Final = 1.5
_LEAD_LEAST: Final = 500
# The producer is at most this far ahead of the completed trees: by the trees of this number of
# seconds, or by this number of messages. That keeps every process busy. More messages would only
# wait, and latency would include the waiting.

_LOOK_SECS: Final = 0.2
_USAGE_SECS: Final = 5.0
_STALL_SECS: Final = 180.0
_MOST_STARTS: Final = 6


class UsageLog:
    """CPU and memory of processes, sampled."""

    def __init__(self) -> None:
        self.processes: list[ManagedProcess] = []
        """The sampled processes, in the order of the report."""
        self._peaks: dict[str, int] = {}
        self._next = 0.0

    def sample(self, now: float | None = None) -> None:
        """Sample all processes. With `now`, do so only every few seconds, because a sample costs
        some milliseconds of CPU time."""
        if now is not None and now < self._next:
            return
        self._next = (now or 0.0) + _USAGE_SECS
        for process in filter(lambda process: process.alive, self.processes):
            self._peaks[process.name] = max(process.rss(), self._peaks.get(process.name, 0))
            process.cpu_seconds()

    def result(self) -> dict[str, Usage]:
        """The usage of each process; `demo` is this process."""
        found = {
            process.name: Usage(process.cpu_seconds(), self._peaks.get(process.name, 0))
            for process in self.processes
        }
        own = psutil.Process()
        times = own.cpu_times()
        return {**found, "demo": Usage(times.user + times.system, own.memory_info().rss)}


class LoadRun:
    """One run of the stage. Call `run` once, when every process is ready."""

    def __init__(
        self,
        processes: LocalProcesses,
        make_feed: Callable[[Callable[[], int]], Feed],
        messages: int,
        victims: Sequence[str],
        usage: UsageLog,
    ) -> None:
        """`make_feed` receives the function that returns the number of messages that may be
        produced so far."""
        self.kills = Kills(processes, victims, messages)
        self.feed = make_feed(self._allowed)
        self._processes, self._messages, self._usage = processes, messages, usage
        self._watch = ProgressWatch(processes)
        self._acked, self._lead = 0, _LEAD_LEAST
        self._began = self._moved = time.monotonic()
        self._movement: tuple[int, ...] = ()
        self._half: tuple[int, float] | None = None

    def run(
        self, view: SentencesView, check: Callable[[], None], done: Callable[[], bool]
    ) -> LoadResult:
        """Run until every message is produced, every killed process is back, and `done()` is true.

        `check` raises if a server has ended. Raises `KstormError` if there is no more progress.
        """
        self._began = self._moved = time.monotonic()
        completed_at: float | None = None
        self.feed.start()
        try:
            while True:
                snapshot = self._look(view)
                check()
                if completed_at is None and snapshot.acked >= self._messages:
                    completed_at = time.monotonic()
                if not self.feed.is_alive() and self.kills.done and done():
                    break
                time.sleep(_LOOK_SECS)
        finally:
            self.feed.stop()
        self._usage.sample()
        return self._result(self._look(view), completed_at)

    def _allowed(self) -> int:
        return min(self._acked + self._lead, self.kills.may_be_produced)

    def _look(self, view: SentencesView) -> ProgressSnapshot:
        snapshot, now = self._watch.look(), time.monotonic()
        self._acked, self._lead = (
            snapshot.acked,
            max(_LEAD_LEAST, int(_LEAD_SECS * snapshot.acked_per_second)),
        )
        if self._half is None and snapshot.acked >= self._messages / 2:
            self._half = snapshot.acked, now
        open_trees = sum(spout.total.pending for spout in snapshot.spouts)
        for text in self.kills.step(snapshot.acked, open_trees, now):
            view.say(text)
        self.feed.check()
        self._check_moves(snapshot, now)
        view.show(snapshot, self._notes())
        self._usage.sample(now)
        return snapshot

    def _notes(self) -> list[str]:
        gone = [kill.worker.name for kill in self.kills.done_so_far if kill.back_after is None]
        return [f"killed, and coming back: {', '.join(gone)}"] if gone else []

    def _check_moves(self, snapshot: ProgressSnapshot, now: float) -> None:
        for worker in self._processes.workers:
            process = worker.process
            if process.starts >= _MOST_STARTS:
                cause = cause_in(process.log_tail(200), self._processes.workdir)
                raise LocalError(
                    f"{worker.name} ended {_MOST_STARTS - 1} times{cause}; its log {process.log_path} ends with:\n"
                    f"{process.log_tail(5)}"
                )
        movement = (
            self.feed.handed_over,
            snapshot.acked,
            snapshot.failed,
            len(self.kills.done_so_far),
        )
        if movement != self._movement:
            self._movement, self._moved = movement, now
        elif now - self._moved > _STALL_SECS:
            raise LocalError(
                f"no progress for {_STALL_SECS:g} s: {snapshot.acked} of {self._messages} trees are complete"
                f"{', not ready: ' + ', '.join(snapshot.down) if snapshot.down else ''}; the logs are in"
                f" {self._processes.workdir}"
            )

    def _result(self, snapshot: ProgressSnapshot, completed_at: float | None) -> LoadResult:
        acked, at = self._half or (snapshot.acked, time.monotonic())
        return LoadResult(
            messages=self._messages,
            acked=snapshot.acked,
            failed=snapshot.failed,
            emitted=snapshot.emitted,
            seconds=(completed_at or time.monotonic()) - self._began,
            undisturbed_per_second=acked / (at - self._began),
            complete_latency_counts=snapshot.complete_latency_counts,
            kills=self.kills.done_so_far,
        )


def offsets_stored(client: KazooClient, path: str, topic: str, ends: Mapping[int, int]) -> bool:
    """Return True if the spout has stored the end of each partition as its offset. `ends` contains
    these ends."""
    for number, end in ends.items():
        node = f"{path}/partition_{number}"
        try:
            data, _ = client.get(node)
        except KazooException:
            return False
        if not data or StoredOffset.from_json(data, Partition(topic, number), node).offset < end:
            return False
    return True
