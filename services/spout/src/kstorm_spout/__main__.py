"""Runs the tasks of one spout: `python -m kstorm_spout` with KSTORM_TOPOLOGY and KSTORM_COMPONENT set."""

from kstorm.runtime.service.log import Logger
from kstorm.runtime.service.run import run
from kstorm.runtime.service.settings import Settings
from kstorm.runtime.service.spout import SpoutDriver
from kstorm.topology import Topology


def make_driver(settings: Settings, topology: Topology, log: Logger) -> SpoutDriver:
    """The driver of the component that the settings name; raises `ConfigError` if that is no spout."""
    return SpoutDriver(settings, topology, settings.component_of(topology, "spout"), log)


def main() -> None:
    """The entry point."""
    run("spout", make_driver)


if __name__ == "__main__":
    main()
