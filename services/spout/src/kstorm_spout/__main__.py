"""Run a spout's tasks: `python -m kstorm_spout` with KSTORM_TOPOLOGY and KSTORM_COMPONENT set."""

from kstorm.runtime.base.log import Logger
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.service.run import run
from kstorm.runtime.service.spout import SpoutDriver
from kstorm.topology import Topology


def make_driver(settings: Settings, topology: Topology, log: Logger) -> SpoutDriver:
    """Create the driver of the settings' component. Raises `ConfigError` if it is not a spout."""
    return SpoutDriver(settings, topology, settings.component_of(topology, "spout"), log)


def main() -> None:
    run("spout", make_driver)


if __name__ == "__main__":
    main()
