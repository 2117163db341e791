"""Run acker tasks: `python -m kstorm_acker` with KSTORM_TOPOLOGY set."""

from kstorm.errors import ConfigError
from kstorm.runtime.base.log import Logger
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.service.acker import AckerDriver
from kstorm.runtime.service.run import run
from kstorm.topology import Topology


def make_driver(settings: Settings, topology: Topology, log: Logger) -> AckerDriver:
    """Create the driver. Raises `ConfigError` if the topology has no ackers."""
    if not topology.config.acker_tasks:
        raise ConfigError(
            f"topology {topology.name!r} has topology_acker_executors=0: it runs without ackers"
        )
    return AckerDriver(settings, topology, log)


def main() -> None:
    run("acker", make_driver)


if __name__ == "__main__":
    main()
