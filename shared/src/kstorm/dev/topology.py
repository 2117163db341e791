"""`kstorm dev MODULE:ATTR|FILE`: runs a topology on this machine while its code changes.

There is one process per executor, as on Kubernetes. Kafka and ZooKeeper are started unless they are
given. The command shows progress until Ctrl-C, and then waits for open trees to finish.
"""

import argparse
import logging
import os
import shutil
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from kstorm.dev.command_exit import run_command
from kstorm.dev.embedded_server import ServerEndedError
from kstorm.dev.endpoints import Endpoints, open_endpoints
from kstorm.dev.installed import InstalledVersion
from kstorm.dev.jars import prepare_servers
from kstorm.dev.live_view import LiveView
from kstorm.dev.local_processes import LocalProcesses
from kstorm.dev.logged_errors import LoggedErrors
from kstorm.dev.paths import kept_directory
from kstorm.dev.progress_watch import ProgressWatch
from kstorm.dev.topic_cleanup import topic_names
from kstorm.dev.user_files import UserCode
from kstorm.dev.web_ui import check_settings, web_ui
from kstorm.errors import ConfigError, KstormError, LocalError, TopicError
from kstorm.kafka import KafkaSpout
from kstorm.printable import printable
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.base.terminal import Screen
from kstorm.runtime.kafka.topics import create_topic, ensure_topics
from kstorm.runtime.kafka.transactional_producer import check_transactions
from kstorm.topology import Topology

_PARTITIONS: Final = 12
_READY_SECS: Final = 240.0
_LOOK_SECS: Final = 0.5

# The topology's topics are created with exact partition counts before anything runs. Automatic
# creation remains enabled for the topics that its bolts write, because only the bolts' code
# determines them.
_KAFKA_SETTINGS: Final = {"auto.create.topics.enable": "true", "num.partitions": str(_PARTITIONS)}


@dataclass(frozen=True, slots=True)
class LocalRunOptions:
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
    fresh: bool = False
    """Forgets the messages, offsets and state of earlier runs."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the topology. Return the exit code: 0 after Ctrl-C, 1 if a local server has ended, 2 if it
    cannot run."""
    arguments = _parser().parse_args(words)
    return run_command("kstorm dev", lambda: run(_options(arguments), Screen()))


def run(options: LocalRunOptions, console: Console) -> int:
    """Run until `KeyboardInterrupt`. Raises `KstormError` for problems that the user can fix."""
    code = UserCode(options.reference, options.properties)
    topology = code.load()  # fails within a second, before the servers start
    check_settings(page=options.page)
    directory = kept_directory(topology.name, options.workdir, fresh=options.fresh)
    logging.basicConfig(
        filename=directory / "topology.log", format="%(asctime)s %(levelname)s %(message)s"
    )
    console.print(
        f"state and logs of {topology.name}: {directory}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    if not (options.bootstrap and options.zookeeper):
        prepare_servers()
        console.print("starting the servers that were not given")
    with (
        open_endpoints(
            directory, options.bootstrap, options.zookeeper, _KAFKA_SETTINGS
        ) as endpoints,
        web_ui(directory, wanted=options.page) as url,
    ):
        _DevRun(options, console, code, directory, endpoints, url).run(topology)
    return 0


@dataclass
class _DevRun:
    """The processes of a topology, which start again when its code changes."""

    options: LocalRunOptions
    console: Console
    code: UserCode
    directory: Path
    endpoints: Endpoints
    url: str
    errors: LoggedErrors = field(default_factory=LoggedErrors)
    installed: InstalledVersion = field(default_factory=InstalledVersion)

    def run(self, topology: Topology) -> None:
        """Run until Ctrl-C."""
        self._create_topics(topology)  # errors before the first start end the command
        self._print_how_to(topology)
        version: Topology | None = topology
        while version is not None:
            version = self._run_version(version)

    def _run_version(self, topology: Topology) -> Topology | None:
        """Run the processes until there is new code that works, and return its topology. Return
        None after Ctrl-C."""
        processes = self._processes(topology)
        with self.code.watched() as changed:
            try:
                processes.start()
                new = self._wait_ready(processes, changed) or self._show(processes, changed)
            except ServerEndedError:
                processes.kill()
                raise
            except LocalError as error:
                processes.kill()
                self._say_errors(processes)
                self._say(str(error), "red")
                self._say("the processes start again when you change the code", "yellow")
                while (new := self._new_version(topology, changed)) is None:
                    changed.wait()
                self.installed.check()
                return new
            except BaseException:
                processes.kill()
                raise
        if new is None:
            self._say("stopping: spouts first, so that open trees can finish")
        else:
            self.errors.forget()
            self._say("the code has changed: the processes start again", "yellow")
        try:
            processes.stop()
        except BaseException:
            processes.kill()
            raise
        if new is not None:
            self.installed.check()
        return new

    def _processes(self, topology: Topology) -> LocalProcesses:
        properties = self.options.properties
        return LocalProcesses(
            topology,
            self.options.reference,
            self.endpoints.bootstrap,
            self.endpoints.zookeeper,
            workdir=self.directory,
            environment={"KSTORM_TOPOLOGY_FILTER": properties} if properties else {},
            topology_id=os.environ.get("KSTORM_TOPOLOGY_ID", ""),
        )

    def _new_version(self, old: Topology, changed: threading.Event) -> Topology | None:
        """Return the topology of changed code. Show an error of the code, and return None."""
        if not changed.is_set():
            return None
        changed.clear()
        try:
            new = self.code.load()
            if new.name != old.name:
                raise ConfigError(
                    f"the topology is called {new.name!r} now: end this command and start another"
                )
            self._create_topics(new)
        except KstormError as error:
            self._say(str(error), "red")
            return None
        return new

    def _wait_ready(self, processes: LocalProcesses, changed: threading.Event) -> Topology | None:
        """Return the topology of new code if there is some before all processes are ready."""

        def waiting(names: list[str]) -> None:
            self._look_after_servers()
            status.update(f"waiting for {', '.join(names)}")
            self._say_errors(processes)
            if new := self._new_version(processes.topology, changed):
                raise _CodeChanged(new)

        with self.console.status("waiting until all processes are ready") as status:
            try:
                processes.wait_ready(_READY_SECS, waiting)
            except _CodeChanged as change:
                return change.topology
        return None

    def _show(self, processes: LocalProcesses, changed: threading.Event) -> Topology | None:
        """Show the topology. Return the topology of new code, or None after Ctrl-C."""
        watch = ProgressWatch(processes)
        try:
            with LiveView(self.console) as view:
                while True:
                    if new := self._new_version(processes.topology, changed):
                        return new
                    self._look_after_servers()
                    view.show(watch.look())
                    self._say_errors(processes)
                    changed.wait(_LOOK_SECS)
        except KeyboardInterrupt:
            return None

    def _create_topics(self, topology: Topology) -> None:
        """Create the topics of the topology and those of `--topic`."""
        settings = self._settings()
        try:
            ensure_topics(topology, settings)
        except TopicError as error:
            if self.options.bootstrap is not None:
                raise
            raise TopicError(
                f"{error}; --fresh forgets the topics and state of earlier runs"
            ) from None
        check_transactions(topology, settings)
        for topic, partitions in self.options.topics:
            create_topic(settings, topic, partitions)
        _provide_sources(topology, settings, create=self.options.bootstrap is None)

    def _settings(self) -> Settings:
        return Settings(
            topology=self.options.reference,
            bootstrap_servers=self.endpoints.bootstrap,
            zookeeper=self.endpoints.zookeeper,
        )

    def _print_how_to(self, topology: Topology) -> None:
        at = self.endpoints
        self._say(
            f"Kafka is at {at.bootstrap}, ZooKeeper at {at.zookeeper}; Ctrl-C ends the topology"
        )
        for topic in source_topics(topology):
            self._say("each line that you type into this, in another terminal, becomes a message:")
            self._say(f"  {_kstorm()} produce {topic} --bootstrap {at.bootstrap}")
        if self.url:
            self._say(f"in a browser: {self.url}")

    def _look_after_servers(self) -> None:
        self.endpoints.look_after(lambda said: self._say(said, "red"))

    def _say_errors(self, processes: LocalProcesses) -> None:
        for line in self.errors.new(processes.workers):
            self._say(line, "red")

    def _say(self, text: str, style: str = "") -> None:
        self.console.print(Text(printable(text), style=style), soft_wrap=True)


class _CodeChanged(Exception):  # noqa: N818 - it is no error
    """Ends the wait for processes of old code."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology.name)
        self.topology = topology


def _kstorm() -> str:
    """Return the command `kstorm` as the user can type it."""
    return "kstorm" if shutil.which("kstorm") else f"{sys.executable} -m kstorm"


def source_topics(topology: Topology) -> list[str]:
    """Return the topics that the KafkaSpouts read."""
    spouts = [spec.component for spec in topology.spouts]
    return list(
        dict.fromkeys(spout.spout_config.topic for spout in spouts if isinstance(spout, KafkaSpout))
    )


def _provide_sources(topology: Topology, settings: Settings, *, create: bool) -> None:
    """Create the source topics in an embedded Kafka. Elsewhere they must exist."""
    sources = source_topics(topology)
    if create:
        for topic in sources:
            create_topic(settings, topic, _PARTITIONS)
    elif missing := [topic for topic in sources if topic not in topic_names(settings)]:
        raise TopicError(
            f"topology {topology.name!r} reads the topic {missing[0]!r}, which Kafka at {settings.bootstrap_servers} does"
            f" not have: create it, or add --topic {missing[0]}:{_PARTITIONS}"
        )


def _options(arguments: argparse.Namespace) -> LocalRunOptions:
    return LocalRunOptions(
        arguments.reference,
        tuple(map(_topic, arguments.topic)),
        arguments.bootstrap,
        arguments.zookeeper,
        arguments.workdir,
        not arguments.no_page,
        arguments.filter,
        arguments.fresh,
    )


def _topic(text: str) -> tuple[str, int]:
    name, colon, count = text.partition(":")
    if not name or (colon and not (count.isdigit() and int(count) > 0)):
        raise ConfigError(f"--topic {text}: give NAME or NAME:PARTITIONS, such as sentences:12")
    return name, int(count) if colon else _PARTITIONS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kstorm dev",
        description="Run a topology on this machine. Its processes start again when its code changes."
        " Messages, offsets and state stay until --fresh.",
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
        help=f"create this topic too, unless it exists ({_PARTITIONS} partitions by default); may be given again",
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
        help="gets a folder with the topology's state and logs (default .kstorm/runs)",
    )
    parser.add_argument(
        "--fresh", action="store_true", help="forget messages, offsets and state of earlier runs"
    )
    parser.add_argument("--no-page", action="store_true", help="do not show it in a browser too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
