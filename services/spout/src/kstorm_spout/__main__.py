"""Runs the tasks of one spout: `python -m kstorm_spout` with KSTORM_TOPOLOGY and KSTORM_COMPONENT set."""

from kstorm.errors import ConfigError
from kstorm.runtime.log import Logger
from kstorm.runtime.service import run
from kstorm.runtime.settings import Settings
from kstorm.runtime.spout_executor import SpoutExecutor
from kstorm.topology import Topology


def make_executor(settings: Settings, topology: Topology, log: Logger) -> SpoutExecutor:
    """The executor of the component that the settings name; raises `ConfigError` if that is no spout."""
    spec = topology.components.get(settings.component)
    if spec is None or spec.kind != "spout":
        names = ", ".join(repr(found.id) for found in topology.spouts)
        raise ConfigError(f"KSTORM_COMPONENT is {settings.component!r}: the spouts of {topology.name!r} are {names}")
    return SpoutExecutor(settings, topology, settings.component, log)


def main() -> None:
    """The entry point."""
    run("spout", make_executor)


if __name__ == "__main__":
    main()
