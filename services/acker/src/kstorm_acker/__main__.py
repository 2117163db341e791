"""Runs acker tasks: `python -m kstorm_acker` with KSTORM_TOPOLOGY set."""

from kstorm.errors import ConfigError
from kstorm.runtime.acker_executor import AckerExecutor
from kstorm.runtime.log import Logger
from kstorm.runtime.service import run
from kstorm.runtime.settings import Settings
from kstorm.topology import Topology


def make_executor(settings: Settings, topology: Topology, log: Logger) -> AckerExecutor:
    """The executor; raises `ConfigError` if the topology wants no ackers."""
    if not topology.config.acker_tasks:
        raise ConfigError(f"topology {topology.name!r} has topology_acker_executors=0: it runs without ackers")
    return AckerExecutor(settings, topology, log)


def main() -> None:
    """The entry point."""
    run("acker", make_executor)


if __name__ == "__main__":
    main()
