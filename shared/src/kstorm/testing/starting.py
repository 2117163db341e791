"""Brings the tasks of a simulated process to work at once, where that can be done."""

from typing import Any

from kstorm.testing.process import Process


def make_ready(process: Process[Any], task: int) -> bool:
    """Takes the steps of the process alone that bring a task it was given to work; False if something is unavailable now."""
    while not (task in process.engine.slots and process.engine.slots[task].works):
        steps = [] if process.dead else process.ready()
        if not steps:
            return False
        steps[0]()
    return True


def start_tasks(process: Process[Any]) -> None:
    """Makes ready what the process was given, as far as that can be done now."""
    for task in sorted(process.tasks):
        if not process.leaves(task):
            make_ready(process, task)
