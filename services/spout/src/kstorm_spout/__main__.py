"""Runs the tasks of one spout: `python -m kstorm_spout` with KSTORM_TOPOLOGY and KSTORM_COMPONENT set."""

from kstorm.runtime.log import Logger
from kstorm.runtime.service import run
from kstorm.runtime.settings import Settings
from kstorm.runtime.spout_executor import SpoutExecutor
from kstorm.topology import Topology


def make_executor(settings: Settings, topology: Topology, log: Logger) -> SpoutExecutor:
    """The executor of the component that the settings name; raises `ConfigError` if that is no spout."""
    return SpoutExecutor(settings, topology, settings.component_of(topology, "spout"), log)


def main() -> None:
    """The entry point."""
    run("spout", make_executor)


if __name__ == "__main__":
    main()
