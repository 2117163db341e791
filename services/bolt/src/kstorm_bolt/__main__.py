"""Runs the tasks of one bolt: `python -m kstorm_bolt` with KSTORM_TOPOLOGY and KSTORM_COMPONENT set."""

from kstorm.errors import ConfigError
from kstorm.runtime.bolt_executor import BoltExecutor
from kstorm.runtime.log import Logger
from kstorm.runtime.service import run
from kstorm.runtime.settings import Settings
from kstorm.topology import Topology


def make_executor(settings: Settings, topology: Topology, log: Logger) -> BoltExecutor:
    """The executor of the component that the settings name; raises `ConfigError` if that is no bolt."""
    spec = topology.components.get(settings.component)
    if spec is None or spec.kind != "bolt":
        names = ", ".join(repr(found.id) for found in topology.bolts)
        raise ConfigError(f"KSTORM_COMPONENT is {settings.component!r}: the bolts of {topology.name!r} are {names}")
    return BoltExecutor(settings, topology, settings.component, log)


def main() -> None:
    """The entry point."""
    run("bolt", make_executor)


if __name__ == "__main__":
    main()
