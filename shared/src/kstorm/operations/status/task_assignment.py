"""Check in Kafka, without sending anything, that a topology is running.

All its topics must exist and each task must be assigned to a process.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kstorm.errors import ControlError, TopicError
from kstorm.operations.status.endpoint_checks import endpoint_faults
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.topology import Topology
from kstorm.topology.topology import ACKER_COMPONENT

_LOOK_SECS: Final = 0.5


class _Group(NamedTuple):
    """Consumer group of a component."""

    component: str
    topic: str
    """Topic whose partitions are the tasks."""
    tasks: int


def await_assignment(topology: Topology, settings: Settings, seconds: float) -> str:
    """Wait until every task is assigned, and return a summary.

    Raises `TopicError` with a line for each topic that is missing or not accessible. Raises
    `ControlError` naming the tasks still unassigned after `seconds`, and `BrokerError` if Kafka
    does not respond.
    """
    admin = Admin(settings)
    there = admin.partition_counts()
    wrong = [
        (
            f"the topology {topology.name!r} has no topic {name!r} at "
            f"{settings.bootstrap_servers}: is it installed?"
        )
        for name in topology.topics() | topology.changelogs()
        if name not in there
    ]
    if wrong := wrong + list(endpoint_faults(topology, settings)):
        raise TopicError("\n".join(wrong))
    groups = {topology.group(group.component): group for group in _groups(topology)}
    deadline = time.monotonic() + seconds
    while idle := _unassigned(admin, groups):
        if time.monotonic() > deadline:
            named = "; ".join(f"{component} {tasks}" for component, tasks in idle.items())
            raise ControlError(
                f"tasks of {topology.name!r} have no process after {seconds:g} s: {named}; check "
                f"the pods, and `kstorm topology status {topology.name}`"
            )
        time.sleep(_LOOK_SECS)
    total = sum(group.tasks for group in groups.values())
    return (
        f"{topology.name}: all {total} tasks have a process, and the topics that it reads and "
        "writes exist"
    )


def _groups(topology: Topology) -> Iterator[_Group]:
    for spout in topology.spouts:
        yield _Group(spout.id, topology.completions_topic(spout.id), spout.num_tasks)
    for bolt in topology.bolts:
        yield _Group(bolt.id, topology.bolt_topic(bolt.id), bolt.num_tasks)
    if topology.config.acker_tasks:
        yield _Group(ACKER_COMPONENT, topology.acker_topic, topology.config.acker_tasks)


def _unassigned(admin: Admin, groups: Mapping[str, _Group]) -> dict[str, list[int]]:
    """Return the unassigned tasks by component."""
    found: dict[str, list[int]] = {}
    for name, members in admin.group_members(list(groups)).items():
        group = groups[name]
        places = (place for member in members for place in member.assignment.topic_partitions)
        taken = {place.partition for place in places if place.topic == group.topic}
        if idle := sorted(set(range(group.tasks)) - taken):
            found[group.component] = idle
    return found
