"""The collector continues to poll after any error."""

import asyncio
import socket
from collections.abc import Mapping, Sequence

import msgspec
import pytest

from kstorm.errors import ControlError
from kstorm_ui import serve
from kstorm_ui.collector import Collector
from kstorm_ui.sources.process_logs import LogLife
from kstorm_ui.sources.report import ProcessReport, TopologyReport
from tests.ui.server import MadeUp, topology


class Moody:
    """A source whose polls end with the given errors. None: it succeeds."""

    def __init__(self, *ends: Exception | None) -> None:
        self._ends = list(ends)

    def __str__(self) -> str:
        return "the moody source"

    def log(self, topology: str, process: str) -> Sequence[LogLife]:
        return ()

    def look(self) -> Sequence[TopologyReport]:
        end = self._ends.pop(0)
        if end is not None:
            raise end
        return [TopologyReport("t", "here", [], [])]


def test_collector_polls_again_after_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected error is logged once, and is a problem on the pages."""
    source = Moody(ControlError("no cluster"), KeyError("status"), KeyError("status"), None)
    problems = []

    async def look() -> Collector:
        collector = Collector(source)
        for _ in range(4):
            await collector.look()
            problems.append(collector.problem)
        return collector

    assert list(asyncio.run(look()).memories) == ["t"]
    failed = "the web UI could not poll the moody source: KeyError, see its log"
    assert problems == ["no cluster", failed, failed, ""]
    assert [record.message for record in caplog.records] == ["polling the moody source failed"]


def test_collector_survives_errors_of_the_lag_query() -> None:

    def lag_of(report: TopologyReport) -> dict[str, dict[int, int]]:
        raise ZeroDivisionError

    async def look() -> str:
        collector = Collector(Moody(None), lag_of)
        await collector.look()
        return collector.problem

    assert (
        asyncio.run(look())
        == "the web UI could not poll the moody source: ZeroDivisionError, see its log"
    )


def test_process_that_waits_for_kafka_has_no_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its `/status` has the reason why it waits, and no tasks. This is the case while a release is
    installed."""
    asked: list[Mapping[str, int]] = []

    class Asked:
        def __init__(self, settings: object) -> None:
            pass

        def of(self, name: str, tasks: Mapping[str, int]) -> dict[str, dict[int, int]]:
            asked.append(tasks)
            return {"split": {0: 5}}

    monkeypatch.setattr(serve, "LagReader", Asked)
    monkeypatch.setattr(serve, "check_reachable", lambda settings: None)
    processes = [
        ProcessReport(
            "count-0",
            "count",
            {"pid": 1, "not_ready": "Kafka has been unreachable since 10:00"},
            "",
            "",
        ),
        ProcessReport("split-0", "split", {"pid": 2, "kind": "bolt", "num_tasks": 4}, "", ""),
        ProcessReport("sink-0", "sink", None, "is Pending", ""),
    ]
    report = TopologyReport(
        "t", "here", [], processes, bootstrap="kafka:9092", zookeeper="zookeeper:2181"
    )
    assert serve.LagOfAll()(report) == {"split": {0: 5}}
    assert asked == [{"split": 4}]


def test_kafka_that_refuses_connections_is_the_first_cause() -> None:
    """The processes notice an outage after half a minute, but the web UI at its next poll."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    report = msgspec.structs.replace(
        topology("words", {"lines": "spout", "count": "bolt"}, [("lines", "count")]),
        bootstrap=f"127.0.0.1:{port}",
        zookeeper="zookeeper:2181",
    )
    collector = Collector(MadeUp(report), serve.LagOfAll())

    asyncio.run(collector.look())
    [cause] = collector.memories["words"].state.causes
    assert (cause.kind, cause.said) == ("kafka away", "Kafka does not answer")
    assert "Connection refused" in cause.evidence[0]
