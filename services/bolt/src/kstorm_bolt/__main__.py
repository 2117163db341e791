"""Run a bolt's tasks: `python -m kstorm_bolt` with KSTORM_TOPOLOGY and KSTORM_COMPONENT set."""

from kstorm.runtime.base.log import Logger
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.service.bolt import BoltDriver
from kstorm.runtime.service.run import run
from kstorm.topology import Topology


def make_driver(settings: Settings, topology: Topology, log: Logger) -> BoltDriver:
    """Create the driver of the settings' component. Raises `ConfigError` if it is not a bolt."""
    return BoltDriver(settings, topology, settings.component_of(topology, "bolt"), log)


def main() -> None:
    run("bolt", make_driver)


if __name__ == "__main__":
    main()
