"""`python -m kstorm.dev.topology MODULE:ATTR|FILE`, started by `./run topology`: runs a topology
on this machine.

There is one process per executor, as on Kubernetes. Kafka and ZooKeeper are started unless they are
given. The command shows progress until Ctrl-C, and then lets open trees finish.
"""

import argparse
import logging
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from kstorm.dev.command_exit import run_command
from kstorm.dev.endpoints import Endpoints, open_endpoints
from kstorm.dev.live_view import LiveView
from kstorm.dev.local_processes import LocalProcesses
from kstorm.dev.paths import run_directory
from kstorm.dev.progress_watch import ProgressWatch
from kstorm.dev.topics import topic_names
from kstorm.dev.web_ui import web_ui
from kstorm.errors import ConfigError, TopicError
from kstorm.kafka import KafkaSpout
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.base.terminal import Screen
from kstorm.runtime.kafka.topics import create_topic, ensure_topics
from kstorm.runtime.kafka.transactional_producer import check_transactions
from kstorm.topology import Topology

_PARTITIONS: Final = 12
_READY_SECS: Final = 240.0
_LOOK_SECS: Final = 0.5

# The topology's topics are created with exact partition counts before anything runs. Automatic
# creation remains for topics that its bolts write to, because only the bolts know them.
_KAFKA_SETTINGS: Final = {"auto.create.topics.enable": "true", "num.partitions": str(_PARTITIONS)}


@dataclass(frozen=True, slots=True)
class TopologyOptions:
    reference: str
    """The topology: `package.module:attribute`, or a YAML file."""
    topics: tuple[tuple[str, int], ...] = ()
    """Additional topics to create, with their partition counts."""
    bootstrap: str | None = None
    """The user's own Kafka. None starts an embedded one."""
    zookeeper: str | None = None
    """The user's own ZooKeeper. None starts an embedded one."""
    workdir: Path | None = None
    """Folder for the folder of this run. None means `.kstorm/runs`."""
    page: bool = True
    """Also starts the web UI."""
    properties: str = ""
    """File with properties for `${name}` in the YAML file, or ""."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the topology. Return the exit code: 0 after Ctrl-C, 2 if it cannot run."""
    arguments = _parser().parse_args(words)
    return run_command("kstorm topology", lambda: run(_options(arguments), Screen()))


def run(options: TopologyOptions, console: Console) -> int:
    """Run until `KeyboardInterrupt`. Raises `KstormError` for problems that the user can fix."""
    settings = Settings(topology=options.reference, topology_filter=options.properties)
    topology = settings.load_topology()  # fails within a second, before the servers start
    directory = run_directory(options.workdir)
    logging.basicConfig(
        filename=directory / "topology.log", format="%(asctime)s %(levelname)s %(message)s"
    )
    console.print(f"logs of this run: {directory}", markup=False, highlight=False, soft_wrap=True)
    if not (options.bootstrap and options.zookeeper):
        console.print("starting the servers that were not given")
    with open_endpoints(
        directory, options.bootstrap, options.zookeeper, _KAFKA_SETTINGS
    ) as endpoints:
        settings = Settings(
            topology=options.reference,
            bootstrap_servers=endpoints.bootstrap,
            zookeeper=endpoints.zookeeper,
        )
        ensure_topics(topology, settings)
        check_transactions(topology, settings)
        for topic, partitions in options.topics:
            create_topic(settings, topic, partitions)
        sources = _provide_sources(topology, settings, create=options.bootstrap is None)
        processes = LocalProcesses(
            topology,
            options.reference,
            endpoints.bootstrap,
            endpoints.zookeeper,
            workdir=directory,
            environment={"KSTORM_TOPOLOGY_FILTER": options.properties}
            if options.properties
            else {},
            topology_id=os.environ.get("KSTORM_TOPOLOGY_ID", ""),
        )
        _print_how_to(console, endpoints, sources)
        with web_ui(directory, wanted=options.page) as url:
            if url:
                console.print(f"in a browser: {url}", highlight=False)
            _run_processes(processes, console)
    return 0


def _run_processes(processes: LocalProcesses, console: Console) -> None:
    try:
        processes.start()
        with console.status("waiting until all processes are ready") as status:
            processes.wait_ready(
                _READY_SECS, lambda names: status.update(f"waiting for {', '.join(names)}")
            )
        _show(processes, console)
        console.print("stopping: spouts first, so that open trees can finish", highlight=False)
        processes.stop()
    except BaseException:
        processes.kill()
        raise


def _show(processes: LocalProcesses, console: Console) -> None:
    """Show the topology until Ctrl-C."""
    watch = ProgressWatch(processes)
    try:
        with LiveView(console) as view:
            while True:
                view.show(watch.look())
                time.sleep(_LOOK_SECS)
    except KeyboardInterrupt:
        return


def _provide_sources(topology: Topology, settings: Settings, *, create: bool) -> list[str]:
    """Return the topics that KafkaSpouts read. An embedded Kafka creates them. Elsewhere they must
    exist."""
    spouts = [spec.component for spec in topology.spouts]
    sources = list(
        dict.fromkeys(spout.spout_config.topic for spout in spouts if isinstance(spout, KafkaSpout))
    )
    if create:
        for topic in sources:
            create_topic(settings, topic, _PARTITIONS)
    elif missing := [topic for topic in sources if topic not in topic_names(settings)]:
        raise TopicError(
            f"topology {topology.name!r} reads the topic {missing[0]!r}, which Kafka at {settings.bootstrap_servers} does"
            f" not have: create it, or add --topic {missing[0]}:{_PARTITIONS}"
        )
    return sources


def _print_how_to(console: Console, endpoints: Endpoints, sources: list[str]) -> None:
    console.print(
        f"Kafka is at {endpoints.bootstrap}, ZooKeeper at {endpoints.zookeeper}; Ctrl-C ends the topology",
        highlight=False,
    )
    for topic in sources:
        command = (
            f"{sys.executable} -m kstorm.cli produce {topic} --bootstrap {endpoints.bootstrap}"
        )
        console.print(
            "what you type into this, in another terminal, becomes messages, a line each:",
            highlight=False,
        )
        console.print(f"  {command}", highlight=False, markup=False, soft_wrap=True)


def _options(arguments: argparse.Namespace) -> TopologyOptions:
    return TopologyOptions(
        arguments.reference,
        tuple(map(_topic, arguments.topic)),
        arguments.bootstrap,
        arguments.zookeeper,
        arguments.workdir,
        not arguments.no_page,
        arguments.filter,
    )


def _topic(text: str) -> tuple[str, int]:
    name, colon, count = text.partition(":")
    if not name or (colon and not (count.isdigit() and int(count) > 0)):
        raise ConfigError(f"--topic {text}: give NAME or NAME:PARTITIONS, such as sentences:12")
    return name, int(count) if colon else _PARTITIONS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./run topology", description="Run a topology on this machine, watched live."
    )
    parser.add_argument(
        "reference",
        metavar="MODULE:ATTR|FILE",
        help="such as examples.wordcount.topology:topology or topology.yaml",
    )
    parser.add_argument(
        "--filter",
        default=os.environ.get("KSTORM_TOPOLOGY_FILTER", ""),
        metavar="FILE",
        help="properties for ${name} in the YAML file",
    )
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS]",
        help=f"create this topic too, unless it exists ({_PARTITIONS} partitions unless said); may be given again",
    )
    parser.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="your own Kafka instead of an embedded one"
    )
    parser.add_argument(
        "--zookeeper", metavar="HOST:PORT", help="your own ZooKeeper instead of an embedded one"
    )
    parser.add_argument(
        "--workdir",
        type=Path,
        metavar="DIR",
        help="gets a folder with this run's logs (default .kstorm/runs)",
    )
    parser.add_argument("--no-page", action="store_true", help="do not show it in a browser too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
