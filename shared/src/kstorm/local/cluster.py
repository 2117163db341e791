"""A topology as processes of this machine: one service process for each executor, as Kubernetes would run one pod each.

Each process is the ordinary service (`python -m kstorm_bolt` …) with the ordinary settings. It may be killed, paused
and scaled, and it comes back as a container would.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kstorm.errors import LocalError
from kstorm.local.ports import reserve_port
from kstorm.local.processes import ManagedProcess
from kstorm.local.supervisor import Supervisor
from kstorm.runtime import running
from kstorm.topology import Topology
from kstorm.topology.topology import ACKER_COMPONENT

_STOP_SECONDS = 40.0
_STATUS_SECONDS = 2.0


@dataclass(frozen=True)
class Worker:
    """One service process."""

    component: str
    number: int
    process: ManagedProcess
    web_port: int

    @property
    def name(self) -> str:
        """`count-0`, as a pod of a StatefulSet is called."""
        return self.process.name

    def status(self) -> dict[str, Any] | None:
        """What its `/status` says; None if it does not answer."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.web_port}/status", timeout=_STATUS_SECONDS
            ) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, urllib.error.URLError, ValueError):
            return None


@dataclass
class LocalProcesses:
    """The workers of one topology. `reference` is `package.module:attribute`, as the services load it."""

    topology: Topology
    reference: str
    bootstrap: str
    zookeeper: str
    workdir: Path
    environment: Mapping[str, str] = field(
        default_factory=dict, repr=False
    )  # it may hold passwords
    environment_of: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """What single workers have besides, by name."""
    restart_delay: float = 1.0
    """Seconds after which a process that died is started again."""
    topology_id: str = ""
    """Id of this deployment; by default the topology's name and the time in ms, another each time."""
    workers: list[Worker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._supervisor = Supervisor(restart_delay=self.restart_delay)
        self.topology_id = self.topology_id or f"{self.topology.name}-{time.time_ns() // 1_000_000}"

    def start(self) -> None:
        """Starts every component with its parallelism, bolts and ackers before the spouts that feed them."""
        config = self.topology.config
        if config.acker_tasks:
            self.scale(ACKER_COMPONENT, config.topology_acker_executors)
        for spec in [*self.topology.bolts, *self.topology.spouts]:
            self.scale(spec.id, spec.parallelism)

    def scale(self, component: str, processes: int) -> None:
        """Starts or stops processes of a component until there are so many; the highest numbers go first."""
        have = self.of(component)
        for worker in reversed(have[processes:]):
            self._supervisor.remove(worker.process, _STOP_SECONDS)
            self.workers.remove(worker)
        for number in range(len(have), processes):
            self.workers.append(self._launch(component, number))
        self._tell()

    def of(self, component: str) -> list[Worker]:
        """The workers of a component, by number."""
        return [worker for worker in self.workers if worker.component == component]

    def data_directory(self, name: str) -> Path:
        """The folder for the RocksDB of the worker of that name."""
        return self.workdir / "data" / name

    def stop(self) -> None:
        """Stops spouts first, so that their trees can finish, then the rest."""
        spouts = {spec.id for spec in self.topology.spouts}
        for worker in self.workers:
            if worker.component in spouts:
                self._supervisor.remove(worker.process, _STOP_SECONDS)
        self._supervisor.stop(_STOP_SECONDS)
        self.workers.clear()
        running.remove(self.workdir)

    def kill(self) -> None:
        """Kills all at once. What was in flight is done again when the topology is started anew."""
        self._supervisor.stop(0)
        self.workers.clear()
        running.remove(self.workdir)

    def statuses(self) -> dict[str, dict[str, Any] | None]:
        """`/status` of every worker by its name, asked side by side."""
        workers = list(self.workers)
        with ThreadPoolExecutor(max_workers=max(1, len(workers))) as pool:
            return dict(
                zip([w.name for w in workers], pool.map(Worker.status, workers), strict=True)
            )

    def wait_ready(
        self, timeout: float = 60.0, on_wait: Callable[[list[str]], None] = lambda names: None
    ) -> None:
        """Waits until every worker is ready; raises `LocalError` with the log of one that is not."""
        deadline = time.monotonic() + timeout
        while True:
            waiting = [
                name
                for name, status in self.statuses().items()
                if status is None or status["not_ready"]
            ]
            if not waiting:
                return
            on_wait(waiting)
            self._check_died(waiting)
            if time.monotonic() > deadline:
                raise LocalError(
                    f"{', '.join(waiting)} not ready after {timeout:.0f} s; {self._log_of(waiting[0])}"
                )
            time.sleep(0.1)

    def _tell(self) -> None:
        """Who runs here, for the page."""
        workers = (
            running.RunningWorker(
                worker.name,
                worker.component,
                f"http://127.0.0.1:{worker.web_port}",
                str(worker.process.log_path.absolute()),
            )
            for worker in self.workers
        )
        running.write(
            self.workdir, running.describe(self.topology, self.bootstrap, self.zookeeper, workers)
        )

    def _check_died(self, names: Iterable[str]) -> None:
        """A worker that refuses to start says why on its last line; trying again would not help."""
        for worker in self.workers:
            if worker.name in names and worker.process.returncode == 2:
                raise LocalError(f"{worker.name} would not start; {self._log_of(worker.name)}")

    def _log_of(self, name: str) -> str:
        worker = next(worker for worker in self.workers if worker.name == name)
        return f"its log {worker.process.log_path} ends with:\n{worker.process.log_tail(5)}"

    def _launch(self, component: str, number: int) -> Worker:
        name = f"{component.strip('_')}-{number}"
        port = reserve_port()
        kind = "acker" if component == ACKER_COMPONENT else self.topology.component(component).kind
        environment = {
            "KSTORM_TOPOLOGY": self.reference,
            "KSTORM_TOPOLOGY_ID": self.topology_id,
            "KSTORM_BOOTSTRAP_SERVERS": self.bootstrap,
            "KSTORM_ZOOKEEPER": self.zookeeper,
            "KSTORM_INSTANCE": name,
            "KSTORM_DATA_DIR": str(self.data_directory(name)),
            "KSTORM_WEB_HOST": "127.0.0.1",
            "KSTORM_WEB_PORT": str(port),
            "KSTORM_STATE_QUERIES": os.environ.get(
                "KSTORM_STATE_QUERIES", "true"
            ),  # told to this machine alone
            "PYTHONUNBUFFERED": "1",
            **self.environment,
            **self.environment_of.get(name, {}),
        }
        if kind != "acker":
            environment["KSTORM_COMPONENT"] = component
        command = [sys.executable, "-m", f"kstorm_{kind}"]
        process = ManagedProcess(name, command, workdir=self.workdir, environment=environment)
        self._supervisor.add(process)
        return Worker(component, number, process, port)
