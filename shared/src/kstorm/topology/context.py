"""A task's view of itself and of the topology (Storm's `TopologyContext`)."""

from collections.abc import Sequence
from typing import Any, Final

from kstorm.topology.fields import Fields
from kstorm.topology.topology import Topology
from kstorm.topology.tuple import DEFAULT_STREAM

CLOCK: Final = "clock"
"""Key in `TopologyContext.resources` of the clock of a simulated cluster, which is a function that
returns seconds. Without it, components use the machine's clock."""


class TopologyContext:
    """The context passed to `open` and `prepare`."""

    def __init__(
        self,
        topology: Topology,
        component: str,
        task_index: int,
        resources: dict[str, Any] | None = None,
    ) -> None:
        self.topology = topology
        """The whole topology."""
        self.component = component
        """Id of this task's component."""
        self.task_index = task_index
        """Index of this task in its component, from 0."""
        self.task_id = topology.task_ids(component)[task_index]
        """Topology-wide id of this task."""
        self.resources: dict[str, Any] = resources or {}
        """Objects that the runtime provides to components, by name (clients, addresses). Empty in a
        simulation."""

    def get_component_tasks(self, component: str) -> Sequence[int]:
        """Return the topology-wide ids of a component's tasks."""
        return self.topology.task_ids(component)

    def get_component_output_fields(self, component: str, stream: str = DEFAULT_STREAM) -> Fields:
        """Return the fields that a component declared for a stream."""
        return self.topology.components[component].streams[stream].fields

    @property
    def total_tasks(self) -> int:
        """Number of tasks of this component."""
        return self.topology.components[self.component].num_tasks
