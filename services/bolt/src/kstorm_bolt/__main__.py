"""Runs the tasks of one bolt: `python -m kstorm_bolt` with KSTORM_TOPOLOGY and KSTORM_COMPONENT set."""

from kstorm.runtime.bolt_executor import BoltExecutor
from kstorm.runtime.log import Logger
from kstorm.runtime.service import run
from kstorm.runtime.settings import Settings
from kstorm.topology import Topology


def make_executor(settings: Settings, topology: Topology, log: Logger) -> BoltExecutor:
    """The executor of the component that the settings name; raises `ConfigError` if that is no bolt."""
    return BoltExecutor(settings, topology, settings.component_of(topology, "bolt"), log)


def main() -> None:
    """The entry point."""
    run("bolt", make_executor)


if __name__ == "__main__":
    main()
