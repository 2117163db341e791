"""The pages of a run: liveness, readiness and stuck queries."""

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.monitor.monitor import Monitor, StallDetector
from kstorm_pipeline.monitor.pages import serving


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def monitor(clock: Clock) -> Monitor:
    """The monitor of two queries that have caught up once."""
    monitor = Monitor(stalled_seconds=600, clock=clock)
    monitor.follow(["bronze", "refine"])
    for name in ("bronze", "refine"):
        monitor.note(name, None, begun=True)
    return monitor


def test_query_between_triggers_is_not_stuck(monitor: Monitor, clock: Clock) -> None:
    """No record arrives for a day."""
    for _ in range(24):
        clock.now += 3600
        for name in ("bronze", "refine"):
            monitor.note(name, None, begun=True)
        assert (monitor.stalled, monitor.not_ready) == (None, None)


def test_long_batch_with_progress_is_not_stuck(monitor: Monitor, clock: Clock) -> None:
    for done in range(100):
        clock.now += 59
        monitor.note("bronze", None, begun=True)
        monitor.note("refine", ("Processing new data", 7, done), begun=True)
        assert (monitor.stalled, monitor.not_ready) == (None, None)


def test_query_without_progress_is_not_ready_and_later_not_alive(
    monitor: Monitor, clock: Clock
) -> None:
    """The progress of the other query does not hide it. After progress it is ready again."""
    monitor.note("refine", ("Processing new data", 7), begun=True)
    for seconds, ready, alive in (
        (59, True, True),
        (61, False, True),
        (599, False, True),
        (601, False, False),
    ):
        clock.now = 1000.0 + seconds
        monitor.note("bronze", None, begun=True)
        monitor.note("refine", ("Processing new data", 7), begun=True)
        assert (monitor.not_ready is None, monitor.stalled is None) == (ready, alive)
    assert monitor.stalled == "refine has made no progress for 601 s"
    monitor.note("refine", ("Processing new data", 8), begun=True)
    assert monitor.not_ready is None


def test_run_without_polls_is_stalled(monitor: Monitor, clock: Clock) -> None:
    clock.now += 601
    assert monitor.stalled is not None


def test_run_is_ready_once_each_query_has_caught_up(clock: Clock) -> None:
    monitor = Monitor(stalled_seconds=600, clock=clock)
    assert monitor.not_ready == "starting"
    monitor.follow(["bronze", "refine"])
    monitor.note("bronze", None, begun=True)
    monitor.note("refine", ("Processing new data", 0), begun=False)
    assert monitor.not_ready == "refine is at its first batch"
    monitor.note("refine", None, begun=True)
    assert monitor.not_ready is None


def test_pulse_measures_from_its_creation() -> None:
    assert StallDetector(now=5.0).still_for(7.5) == 2.5


@pytest.fixture
def port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def served(monitor: Monitor, port: int) -> Iterator[str]:
    with serving(monitor, port):
        yield f"http://127.0.0.1:{port}"


def test_pages_have_status_and_reason(served: str, monitor: Monitor, clock: Clock) -> None:
    assert answer(f"{served}/livez") == answer(f"{served}/readyz") == (200, "ok\n")
    monitor.metrics.add_batch("bronze", 12, 0.5)
    status, text = answer(f"{served}/metrics")
    assert status == 200
    assert 'kstorm_pipeline_rows_total{table="bronze"} 12.0\n' in text
    assert "_created" not in text
    clock.now += 100
    assert answer(f"{served}/readyz") == (503, "bronze has made no progress for 100 s\n")
    assert (
        'kstorm_pipeline_standing_still_seconds{query="bronze"} 100.0\n'
        in answer(f"{served}/metrics")[1]
    )
    assert answer(f"{served}/livez")[0] == 200
    assert answer(f"{served}/other") == (404, "there are /metrics, /livez and /readyz\n")


def test_taken_port_is_named(served: str, monitor: Monitor, port: int) -> None:
    problem = rf"--http-port {port} cannot be served: .*; give another, or 0 for none"
    with pytest.raises(PipelineError, match=problem), serving(monitor, port):
        pass


def answer(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
