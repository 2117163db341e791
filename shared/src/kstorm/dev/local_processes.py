"""Run a topology as local processes: one service process per executor, in place of a pod on
Kubernetes.

Each process is the ordinary service (`python -m kstorm_bolt` …) with the ordinary settings. It can
be killed, paused and scaled, and it restarts like a container.
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

from kstorm.dev.free_ports import reserve_port
from kstorm.dev.processes import ManagedProcess
from kstorm.dev.supervisor import Supervisor
from kstorm.errors import LocalError
from kstorm.runtime import run_files
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
        """Name in the style of a StatefulSet's pods, such as `count-0`."""
        return self.process.name

    def status(self) -> dict[str, Any] | None:
        """Return its `/status`, or None if it does not respond."""
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
    """The workers of one topology. `reference` is `package.module:attribute`, as the services load
    it."""

    topology: Topology
    reference: str
    bootstrap: str
    zookeeper: str
    workdir: Path
    # No repr, because it may contain passwords.
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment_of: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """Additional variables of single workers, by name."""
    restart_delay: float = 1.0
    """Seconds until a dead process is restarted."""
    topology_id: str = ""
    """Id of this deployment. By default the topology's name and the time in ms, so that each
    deployment has another ID."""
    workers: list[Worker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._supervisor = Supervisor(restart_delay=self.restart_delay)
        self.topology_id = self.topology_id or f"{self.topology.name}-{time.time_ns() // 1_000_000}"

    def start(self) -> None:
        """…Start every component with its parallelism, bolts and ackers before the spouts that feed
        them."""
        config = self.topology.config
        if config.acker_tasks:
            self.scale(ACKER_COMPONENT, config.topology_acker_executors)
        for spec in [*self.topology.bolts, *self.topology.spouts]:
            self.scale(spec.id, spec.parallelism)

    def scale(self, component: str, processes: int) -> None:
        """Scale a component to `processes` processes. The highest numbers stop first."""
        have = self.of(component)
        for worker in reversed(have[processes:]):
            self._supervisor.remove(worker.process, _STOP_SECONDS)
            self.workers.remove(worker)
        for number in range(len(have), processes):
            self.workers.append(self._launch(component, number))
        self._tell()

    def of(self, component: str) -> list[Worker]:
        return [worker for worker in self.workers if worker.component == component]

    def data_directory(self, name: str) -> Path:
        """Return the RocksDB folder of a worker."""
        return self.workdir / "data" / name

    def stop(self) -> None:
        """Stop the spouts first, so that their trees can finish, and then the rest."""
        spouts = {spec.id for spec in self.topology.spouts}
        for worker in self.workers:
            if worker.component in spouts:
                self._supervisor.remove(worker.process, _STOP_SECONDS)
        self._supervisor.stop(_STOP_SECONDS)
        self.workers.clear()
        run_files.remove(self.workdir)

    def kill(self) -> None:
        """Kill all workers immediately. In-flight tuples are replayed when the topology is started
        again."""
        self._supervisor.stop(0)
        self.workers.clear()
        run_files.remove(self.workdir)

    def statuses(self) -> dict[str, dict[str, Any] | None]:
        """Return the `/status` of every worker by name, queried in parallel."""
        workers = list(self.workers)
        with ThreadPoolExecutor(max_workers=max(1, len(workers))) as pool:
            return dict(
                zip([w.name for w in workers], pool.map(Worker.status, workers), strict=True)
            )

    def wait_ready(
        self, timeout: float = 60.0, on_wait: Callable[[list[str]], None] = lambda names: None
    ) -> None:
        """Wait until every worker is ready. Raises `LocalError` with the log of a worker that is
        not."""
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
        """Write the list of running workers for the web UI."""
        workers = (
            run_files.RunningWorker(
                worker.name,
                worker.component,
                f"http://127.0.0.1:{worker.web_port}",
                str(worker.process.log_path.absolute()),
            )
            for worker in self.workers
        )
        run_files.write(
            self.workdir,
            run_files.describe(
                self.topology,
                self.bootstrap,
                self.zookeeper,
                workers,
                run_files.RunCode(
                    self.reference,
                    str(Path.cwd()),
                    self.environment.get("KSTORM_TOPOLOGY_FILTER", ""),
                ),
            ),
        )

    def _check_died(self, names: Iterable[str]) -> None:
        """Raise `LocalError` for a worker that refused to start, because a retry would not help.

        The last line of its log gives the reason.
        """
        for worker in self.workers:
            if worker.name in names and worker.process.returncode == 2:
                raise LocalError(f"{worker.name} did not start; {self._log_of(worker.name)}")

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
            # The web server listens only on this machine.
            "KSTORM_STATE_QUERIES": os.environ.get("KSTORM_STATE_QUERIES", "true"),
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
