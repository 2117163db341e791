"""Starts the tasks of a simulated process immediately, where possible."""

from typing import Any

from kstorm.testing.process import Process


def make_ready(process: Process[Any], task: int) -> bool:
    """Take only this process's steps until the task works. Return False if something it needs is
    unavailable."""
    while not (task in process.engine.slots and process.engine.slots[task].works):
        steps = [] if process.dead else process.ready()
        if not steps:
            return False
        steps[0]()
    return True


def start_tasks(process: Process[Any]) -> None:
    """Start the process's assigned tasks, as far as possible now."""
    for task in sorted(process.tasks):
        if not process.leaves(task):
            make_ready(process, task)
