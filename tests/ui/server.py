"""The web UI in this process, with topologies made up by tests."""

import socket
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any

from kstorm.errors import KstormError
from kstorm.introspection.outline import Outline, OutlineEdge
from kstorm_ui.collector import Collector
from kstorm_ui.serve import UiServer
from kstorm_ui.sources.process_logs import LogLife
from kstorm_ui.sources.report import ComponentReport, ProcessReport, ReportSource, TopologyReport

BEGUN = 1_700_000_000.0


class MadeUp:
    """A source that returns the given reports."""

    def __init__(self, *reports: TopologyReport) -> None:
        self.reports: Sequence[TopologyReport] = reports
        self.error = ""
        self.lives: Sequence[LogLife] = ()

    def __str__(self) -> str:
        return "a test"

    def log(self, topology: str, process: str) -> Sequence[LogLife]:
        return self.lives

    def look(self) -> Sequence[TopologyReport]:
        if self.error:
            raise KstormError(self.error)
        return self.reports


def status(kind: str = "bolt", **more: Any) -> dict[str, Any]:
    """Return a service's `/status` response."""
    return {
        "kind": kind,
        "pid": 1,
        "begun_at": BEGUN,
        "tasks": [0],
        "num_tasks": 1,
        "not_ready": "",
        "last_error": "",
        "last_error_age": None,
        **more,
    }


def topology(
    name: str,
    components: Mapping[str, str],
    edges: Sequence[tuple[str, str]],
    statuses: Mapping[str, Mapping[str, Any]] | None = None,
    **more: Any,
) -> TopologyReport:
    """Return a topology with one process per component. `components`: kinds by id."""
    found = statuses or {}
    return TopologyReport(
        name,
        "a test",
        [ComponentReport(each, kind, 1) for each, kind in components.items()],
        [
            ProcessReport(f"{each}-0", each, found.get(each, status(kind)))
            for each, kind in components.items()
        ],
        **{"outline": outline_of(name, edges), **more},
    )


def outline_of(name: str, edges: Sequence[tuple[str, str]]) -> Outline:
    return Outline(
        name, edges=[OutlineEdge(source, "default", target, "shuffle") for source, target in edges]
    )


@contextmanager
def serving(
    source: ReportSource,
    token: str = "",
    user_header: str = "",
    every: float = 0.2,
    *,
    show_values: bool = False,
    actions: Set[str] = frozenset(),
    show_logs: bool = False,
) -> Iterator[str]:
    """Serve the web UI and yield its URL."""
    server = UiServer(
        Collector(source, every=every),
        token,
        user_header,
        show_values,
        actions,
        show_logs=show_logs,
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        _await(f"{url}/livez")
        try:
            yield url
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive(), "the web UI does not stop"


def _await(url: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            urllib.request.urlopen(
                urllib.request.Request(url, headers={"X-User": "test"}), timeout=2
            ).close()
        except OSError:
            assert time.monotonic() < deadline, f"{url} does not answer"
            time.sleep(0.02)
        else:
            return
