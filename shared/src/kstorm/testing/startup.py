"""Starts the tasks of a simulated process immediately, where possible."""

from typing import Any

from kstorm.testing.process import SimulatedProcess


def start_task(process: SimulatedProcess[Any], task: int) -> bool:
    """Take only this process's steps until the task works. Return False if something it needs is
    unavailable."""
    while not (task in process.engine.tenures and process.engine.tenures[task].works):
        steps = [] if process.dead else process.ready()
        if not steps:
            return False
        steps[0]()
    return True


def start_tasks(process: SimulatedProcess[Any]) -> None:
    """Start the process's assigned tasks, as far as possible now."""
    for task in sorted(process.tasks):
        if not process.leaves(task):
            start_task(process, task)
