"""The main part of a chaos run: messages flow, and faults follow one another without overlap."""

import random
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from kstorm.dev.live_view import LiveView
from kstorm.errors import LocalError
from tests.chaos.faults import Fault, HoldFor, HoldUntil, Steps, draw
from tests.chaos.feed import Feed
from tests.chaos.options import ChaosOptions
from tests.chaos.outcome import Episode
from tests.chaos.recovery_watch import RecoveryWatch
from tests.chaos.testbed import Testbed

_LOOK_SECS: Final = 0.3
_CALM_SECS: Final = 240.0
_BREATH_SECS: Final = 2.0


class FaultSequence:
    """`episodes` and `skipped` are filled during the run."""

    def __init__(
        self,
        options: ChaosOptions,
        stage: Testbed,
        feed: Feed,
        view: LiveView,
        say: Callable[..., None],
        episodes: list[Episode],
        skipped: dict[str, str],
    ) -> None:
        self._options, self._stage, self._feed, self._view, self._say = (
            options,
            stage,
            feed,
            view,
            say,
        )
        self._episodes, self._skipped = episodes, skipped
        self._pulse = RecoveryWatch(stage.processes, stage.tasks)
        self._under_way = "nothing is broken yet"
        self._hands = ThreadPoolExecutor(1, thread_name_prefix="hands")

    def run(self) -> None:
        """Return when all drawn faults are over and everything has recovered."""
        possible = [fault for fault in self._options.faults if not self._leave_out(fault)]
        began = time.monotonic()
        self._feed.start()
        self._until(
            lambda: self._pulse.snapshot.acked > 0 and self._pulse.calm_since(began),
            "messages come through",
            _CALM_SECS,
        )
        ends_at = time.monotonic() + self._options.minutes * 60
        for fault, rng in draw(possible, self._options.seed):
            if self._options.short and len(self._episodes) == len(possible):
                break
            if not self._options.short and time.monotonic() >= ends_at:
                break
            self._rest(_BREATH_SECS)
            self._break(fault, rng)
        self._hands.shutdown()
        self._feed.stop()

    def _leave_out(self, fault: Fault) -> bool:
        if reason := fault.impossible(self._stage):
            self._skipped[fault.name] = reason
            self._say(f"{fault.name} is left out: {reason}", "yellow")
        return bool(reason)

    def _break(self, fault: Fault, rng: random.Random) -> None:
        self._under_way = f"{fault.name}: {fault.says}"
        self._say(self._under_way, "bold yellow")
        failed, starts = self._pulse.snapshot.failed, self._starts()
        episode = Episode(fault.name, fault.says, int(time.time() * 1000))
        began = time.monotonic()
        steps = fault.inject(self._stage, rng)
        try:
            waiting = self._handle(lambda: next(steps, None))
            self._pulse.reset()
            while waiting is not None:
                self._await(waiting, episode, began)
                waiting = self._handle(lambda: next(steps, None))
        finally:
            self._close(steps)
        self._under_way = f"{fault.name} is over; not all is as before yet"
        mended = time.monotonic()
        self._until(
            lambda: self._note_progress(episode, began) and self._pulse.calm_since(mended),
            f"all goes on after {fault.name}",
            _CALM_SECS,
        )
        episode.end = int(time.time() * 1000)
        episode.longest_stop = self._pulse.longest_stop
        episode.replayed = self._pulse.snapshot.failed - failed
        episode.starts = self._starts() - starts
        self._episodes.append(episode)
        self._under_way = "nothing is broken"
        self._say(
            f"works again after {episode.progress_secs:.1f} s, calm after {(episode.end - episode.begin) / 1000:.0f} s;"
            f" {episode.replayed} trees were replayed"
        )

    def _starts(self) -> int:
        return sum(worker.process.starts for worker in self._stage.processes.workers)

    def _close(self, steps: Steps) -> None:
        """Run the fault's repair, in case the run is interrupted."""
        self._hands.submit(steps.close).result()  # type: ignore[attr-defined]

    def _await(self, waiting: HoldFor | HoldUntil, episode: Episode, began: float) -> None:
        if isinstance(waiting, HoldUntil):
            self._until(
                waiting.done,
                waiting.what,
                waiting.within,
                lambda: self._note_progress(episode, began),
            )
            return
        over = time.monotonic() + waiting.seconds
        while time.monotonic() < over:
            self._look()
            self._note_progress(episode, began)

    def _note_progress(self, episode: Episode, began: float) -> bool:
        if episode.progress_secs is None and self._pulse.works_again:
            episode.progress_secs = time.monotonic() - began
        return episode.progress_secs is not None

    def _handle(self, step: Callable[[], HoldFor | HoldUntil | None]) -> HoldFor | HoldUntil | None:
        """Run a step that may take a while, and keep polling meanwhile."""
        doing: Future[HoldFor | HoldUntil | None] = self._hands.submit(step)
        while not doing.done():
            self._look()
        return doing.result()

    def _rest(self, seconds: float) -> None:
        over = time.monotonic() + seconds
        while time.monotonic() < over:
            self._look()

    def _until(
        self,
        done: Callable[[], bool],
        what: str,
        within: float,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        deadline = time.monotonic() + within
        self._look()
        while not done():
            meanwhile()
            if time.monotonic() > deadline:
                raise LocalError(
                    f"waited {within:.0f} s until {what}, without success;"
                    f" not ready: {', '.join(self._pulse.snapshot.down) or 'none'}"
                )
            self._look()

    def _look(self) -> None:
        self._feed.check()
        snapshot = self._pulse.look()
        counts = f"produced {self._feed.produced:,}, arrived {self._feed.arrived:,}, completed {snapshot.acked:,}"
        self._view.show(
            snapshot,
            [self._under_way, f"{counts}, {self._pulse.stopped_for:.1f} s without progress"],
        )
        time.sleep(_LOOK_SECS)
