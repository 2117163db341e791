"""Servers, the topology's processes, the web UI and the feed, for troubles to act on."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kstorm.dev.local_processes import LocalProcesses, Worker
from kstorm.dev.processes import ManagedProcess
from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.errors import LocalError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.topics import create_topic, ensure_topics
from tests.chaos.small_disk import small_disk
from tests.integration.certificates import Authority
from tests.troubles.feed import Feed
from tests.troubles.topology import NAME, PARTITIONS, REFERENCE, SOURCE, topology

SMALL_DISK: Final = "count-0"
"""The process whose folder is a small disk."""
WITH_LOGIN: Final = "store-0"
"""The process that logs in to Kafka."""
_USER, _PASSWORD = "kstorm", "scram-Pa55"
_SMALL_DISK_BYTES: Final = 48 << 20
_READY_SECS: Final = 240.0
_URL_SECS: Final = 60.0


@dataclass
class Stage:
    """The objects that a trouble may break."""

    directory: Path
    kafka: EmbeddedKafka
    zookeeper: EmbeddedZooKeeper
    processes: LocalProcesses
    feed: Feed
    login: Path
    """File with the properties of `WITH_LOGIN`."""
    authority: Path
    no_small_disk: str
    """The reason why there is no small disk, or empty."""
    url: str = ""
    """Address of the web UI."""

    def worker(self, name: str) -> Worker:
        return next(worker for worker in self.processes.workers if worker.name == name)

    def data_of(self, name: str) -> Path:
        """Return the folder of a process's RocksDB."""
        return self.processes.data_directory(name)

    def set_password(self, password: str = _PASSWORD) -> None:
        """Change the password that `WITH_LOGIN` uses from its next start on."""
        properties = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": _USER,
            "sasl.password": password,
            "ssl.ca.location": str(self.authority),
        }
        self.login.write_text(json.dumps(properties))

    def kstorm(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the command `kstorm` on this run."""
        return subprocess.run(
            [sys.executable, "-m", "kstorm", *words, "--runs", str(self.directory)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "COLUMNS": "400"},
        )


@contextmanager
def open_stage(directory: Path) -> Iterator[Stage]:
    """Start everything for the duration of the block. All processes are ready at its start."""
    with ExitStack() as stack:
        authority = Authority(directory / "certificates", "authority")
        kafka = stack.enter_context(
            EmbeddedKafka(
                directory,
                logins={_USER: _PASSWORD},
                certificates={"valid": authority.sign("broker")},
            )
        )
        zookeeper = stack.enter_context(EmbeddedZooKeeper(directory))
        settings = Settings(
            topology=REFERENCE, bootstrap_servers=kafka.bootstrap, zookeeper=zookeeper.connect
        )
        create_topic(settings, SOURCE, PARTITIONS, {})
        ensure_topics(topology(), settings)
        login = directory / "login.json"
        processes = LocalProcesses(
            topology(),
            REFERENCE,
            kafka.bootstrap,
            zookeeper.connect,
            directory,
            environment_of={
                WITH_LOGIN: {
                    "KSTORM_BOOTSTRAP_SERVERS": kafka.secure("valid"),
                    "KSTORM_KAFKA_PROPERTIES_FILE": str(login),
                }
            },
        )
        reason = stack.enter_context(
            small_disk(processes.data_directory(SMALL_DISK), _SMALL_DISK_BYTES)
        )
        stage = Stage(
            directory,
            kafka,
            zookeeper,
            processes,
            Feed(kafka.bootstrap),
            login,
            authority.certificate,
            reason,
        )
        stage.set_password()
        stack.callback(processes.kill)
        processes.start()
        processes.wait_ready(_READY_SECS)
        stack.enter_context(stage.feed)
        page = _web_ui(directory)
        stack.callback(page.stop)
        page.start()
        stage.url = f"{_url_of(page)}/t/{NAME}"
        _await_page(stage.url)
        yield stage


def _web_ui(directory: Path) -> ManagedProcess:
    command: list[str | Path] = [sys.executable, "-m", "kstorm_ui", "--runs", directory]
    return ManagedProcess("ui", [*command, "--port", "0"], workdir=directory)


def _url_of(page: ManagedProcess) -> str:
    deadline = time.monotonic() + _URL_SECS
    while not (found := re.search(r"the web UI is at (http://\S+)/", page.log_tail())):
        if not page.alive or time.monotonic() > deadline:
            raise LocalError(f"the web UI does not start: {page.log_tail(5)}")
        time.sleep(0.05)
    return found[1]


def _await_page(url: str) -> None:
    """Wait until the web UI has polled the topology for the first time."""
    deadline = time.monotonic() + _URL_SECS
    while True:
        try:
            urllib.request.urlopen(url, timeout=_URL_SECS).close()
        except OSError as error:
            if time.monotonic() > deadline:
                raise LocalError(f"the web UI does not show {url}: {error}") from None
            time.sleep(0.1)
        else:
            return
