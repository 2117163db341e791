"""Faults of processes: killed, suspended, rescaled, replaced one by one."""

import random
from collections.abc import Callable
from typing import Final

from kstorm.dev.local_processes import Worker
from tests.chaos.faults import Fault, HoldFor, HoldUntil, Injection, Steps
from tests.chaos.testbed import Testbed
from tests.chaos.tested_topology import TestedTopology

ASLEEP_SECS: Final = 10.0
"""Longer than a consumer group's session timeout (6 s)."""
_STOP_SECS: Final = 40.0
_ROLES: Final = ("spout", "split", "count", "window", "join", "sink", "acker")
_SPREAD_SECS: Final = 8.0


def kill(role: str) -> Injection:
    """SIGKILL. The process is restarted a second later."""

    def inject(stage: Testbed, rng: random.Random) -> Steps:
        stage.pick(role, rng).process.kill()
        yield HoldFor(0)

    return inject


def kill_together(stage: Testbed, rng: random.Random) -> Steps:
    """SIGKILL one process of each role, as if a machine were lost. All restart a second later."""
    for role in stage.subject.roles:
        stage.pick(role, rng).process.kill()
    yield HoldFor(0)


def sleep(stage: Testbed, rng: random.Random) -> Steps:
    """SIGSTOP for longer than the session timeout, then SIGCONT."""
    process = stage.pick(rng.choice(list(stage.subject.roles)), rng).process
    process.pause()
    try:
        yield HoldFor(ASLEEP_SECS)
    finally:
        process.resume()


def scale(stage: Testbed, rng: random.Random) -> Steps:
    """Scale a bolt up, and down again."""
    component = rng.choice(stage.subject.scaled)
    before = len(stage.processes.of(component))
    stage.processes.scale(component, 3)
    try:
        yield HoldUntil(
            _has_tasks(stage.processes.of(component)),
            f"each of three processes of {component!r} has tasks",
        )
        yield HoldFor(_SPREAD_SECS)
    finally:
        stage.processes.scale(component, before)


def roll(stage: Testbed, rng: random.Random) -> Steps:
    """Stop every process with SIGTERM and start it again, one after the other."""
    for worker in list(stage.processes.workers):
        worker.process.stop(_STOP_SECS)
        try:
            yield HoldFor(0)
        finally:
            worker.process.start()
        yield HoldUntil(_is_ready(worker), f"{worker.name} is ready again")


def _is_ready(worker: Worker) -> Callable[[], bool]:
    def ready() -> bool:
        status = worker.status()
        return status is not None and not status["not_ready"]

    return ready


def _has_tasks(workers: list[Worker]) -> Callable[[], bool]:
    """Return a check that all have tasks. With only two tasks, a third process stands by."""

    def spread() -> bool:
        statuses = [worker.status() for worker in workers]
        tasks = [
            len(status["tasks"])
            for status in statuses
            if status is not None and not status["not_ready"]
        ]
        return (len(tasks) == len(workers) and max(tasks) == 1) or sum(map(bool, tasks)) == len(
            workers
        )

    return spread


def _has(role: str) -> Callable[[TestedTopology], bool]:
    return lambda subject: role in subject.roles


KILLS: Final = [
    Fault(f"kill-{role}", f"SIGKILL to a process of the {role}", kill(role), fits=_has(role))
    for role in _ROLES
]
PROCESS_FAULTS: Final = [
    *KILLS,
    Fault(
        "kill-together",
        "SIGKILL to a process of each role at once, as when a machine is lost",
        kill_together,
    ),
    Fault(
        "sleep",
        f"SIGSTOP to a process for {ASLEEP_SECS:.0f} s, longer than its session; then SIGCONT",
        sleep,
    ),
    Fault("scale", "a bolt is scaled to three processes and back", scale),
    Fault(
        "rolling-restart",
        "each process is stopped by SIGTERM and started again, one after the other",
        roll,
    ),
]
