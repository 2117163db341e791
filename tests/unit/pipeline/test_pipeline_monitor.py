"""What a run says of itself at its pages: whether it is alive and ready, and that a query which stands still is noticed."""

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.monitor.monitor import Monitor
from kstorm_pipeline.monitor.pages import serving
from kstorm_pipeline.monitor.pulse import Pulse


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
    """Return the monitor of two queries that have begun."""
    monitor = Monitor(stalled_seconds=600, clock=clock)
    monitor.follow(["bronze", "refine"])
    for name in ("bronze", "refine"):
        monitor.note(name, None, begun=True)
    return monitor


def test_a_query_that_waits_for_its_time_does_not_stand_still(
    monitor: Monitor, clock: Clock
) -> None:
    """For a day no record comes: each look finds it waiting."""
    for _ in range(24):
        clock.now += 3600
        for name in ("bronze", "refine"):
            monitor.note(name, None, begun=True)
        assert (monitor.stalled, monitor.not_ready) == (None, None)


def test_a_long_batch_whose_tasks_end_one_by_one_does_not_stand_still(
    monitor: Monitor, clock: Clock
) -> None:
    for done in range(100):
        clock.now += 59
        monitor.note("bronze", None, begun=True)
        monitor.note("refine", ("Processing new data", 7, done), begun=True)
        assert (monitor.stalled, monitor.not_ready) == (None, None)


def test_a_query_at_work_without_a_sign_of_life_is_not_ready_and_then_not_alive(
    monitor: Monitor, clock: Clock
) -> None:
    """The other one gets on, and hides nothing. One sign of life, and all is well."""
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


def test_who_looks_may_be_what_hangs(monitor: Monitor, clock: Clock) -> None:
    """No look for so long is no sign of life either."""
    clock.now += 601
    assert monitor.stalled is not None


def test_a_run_is_ready_when_each_query_has_once_done_what_there_was(clock: Clock) -> None:
    monitor = Monitor(stalled_seconds=600, clock=clock)
    assert monitor.not_ready == "starting"
    monitor.follow(["bronze", "refine"])
    monitor.note("bronze", None, begun=True)
    monitor.note("refine", ("Processing new data", 0), begun=False)
    assert monitor.not_ready == "refine is at its first batch"
    monitor.note("refine", None, begun=True)
    assert monitor.not_ready is None


def test_the_clock_of_a_pulse_begins_with_it() -> None:
    assert Pulse(now=5.0).still_for(7.5) == 2.5


@pytest.fixture
def port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def served(monitor: Monitor, port: int) -> Iterator[str]:
    with serving(monitor, port):
        yield f"http://127.0.0.1:{port}"


def test_the_pages(served: str, monitor: Monitor, clock: Clock) -> None:
    """Probes go by the status; a person reads why."""
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


def test_a_port_that_is_taken_is_named(served: str, monitor: Monitor, port: int) -> None:
    problem = rf"--http-port {port} cannot be served: .*; give another, or 0 for none"
    with pytest.raises(PipelineError, match=problem), serving(monitor, port):
        pass


def answer(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
