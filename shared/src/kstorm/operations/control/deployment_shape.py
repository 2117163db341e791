"""Facts about a deployment that follow from the topology's code.

The chart's values repeat them, and `kstorm prepare` compares the values with the code.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from kstorm.errors import ConfigError
from kstorm.topology import Stateful, Topology


class ComponentShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Facts about a spout or bolt that the chart needs."""

    kind: Literal["spout", "bolt"]
    tasks: int
    stateful: bool = False
    """True if the component has a `KeyValueState`, and therefore needs a disk and a stable pod
    name."""


class DeploymentShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Facts about a topology. In JSON the names are in camel case, like Helm's values."""

    topology_name: str
    components: Mapping[str, ComponentShape]
    acker_tasks: int

    def differences(self, code: "DeploymentShape") -> Iterator[str]:
        """Yield every difference between these values and the code's, with both sides."""
        if self.topology_name != code.topology_name:
            yield _both("topologyName", self.topology_name, code.topology_name)
        if self.acker_tasks != code.acker_tasks:
            yield _both("ackers.tasks", self.acker_tasks, code.acker_tasks)
        for id in sorted(self.components.keys() - code.components.keys()):
            yield f"components.{id} is in the values, but not in the code"
        for id, coded in code.components.items():
            if id not in self.components:
                yield f"components.{id} is in the code, but not in the values"
                continue
            for name in ComponentShape.__struct_fields__:
                said, is_so = getattr(self.components[id], name), getattr(coded, name)
                if said != is_so:
                    yield _both(f"components.{id}.{name}", said, is_so)


def shape_of(topology: Topology) -> DeploymentShape:
    return DeploymentShape(
        topology_name=topology.name,
        components={
            id: ComponentShape(spec.kind, spec.num_tasks, isinstance(spec.component, Stateful))
            for id, spec in topology.components.items()
        },
        acker_tasks=topology.config.acker_tasks,
    )


def parse_shape(text: str) -> DeploymentShape:
    """Parse the chart's `--values`. Raises `ConfigError` if they are invalid."""
    try:
        return msgspec.json.decode(text, type=DeploymentShape)
    except msgspec.DecodeError as error:
        raise ConfigError(f"--values is not what the chart passes: {error}") from None


def _both(name: str, said: object, is_so: object) -> str:
    return f"{name} is {said!r} in the values and {is_so!r} in the code"
