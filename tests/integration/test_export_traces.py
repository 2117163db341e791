"""`kstorm export-traces` on real servers sends failed and timed out trees, but no trees that were
done in time."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kstorm.dev.free_ports import reserve_port
from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.kafka.traceparent import parse
from kstorm.operations.traces.topic_log import ReadBudget
from kstorm.operations.traces.tree_batches import TreeBatch
from tests.conftest import Eventually
from tests.integration.engine import SINK_PARTITIONS, SOURCE_PARTITIONS, Engine, running
from tests.jaeger import Jaeger
from tests.kstorm_command import says
from tests.otlp_collector import OtlpCollector, attributes

REFERENCE = "tests.integration.topologies:forgetful"
SENTENCES, FORGOTTEN, BAD = 60, 15, 28
PRODUCER = f"00-{'ab' * 16}-{'cd' * 8}-01"


@pytest.fixture(scope="module")
def engine(
    kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """A running topology that has finished all sentences except one that timed out and one that
    failed."""
    with pytest.MonkeyPatch.context() as patch:
        folder: Path = tmp_path_factory.mktemp("exported")
        with running(
            "forgetful", "exported", kafka, zookeeper, folder, patch, timeout_secs=5
        ) as found:
            patch.setenv("KSTORM_BOOTSTRAP_SERVERS", kafka.bootstrap)
            patch.setenv("KSTORM_TOPOLOGY", REFERENCE)
            found.produce(map(sentence, range(SENTENCES)), [("traceparent", PRODUCER)])
            found.await_total("sentences", "acked", SENTENCES - 2)
            found.await_total("sentences", "failed", 2)
            yield found


def sentence(number: int) -> str:
    return {FORGOTTEN: "the cow jumped over the moon", BAD: "this is bad"}.get(
        number, f"sentence w{number} the cow"
    )


def place(engine: Engine, number: int) -> tuple[str, int, int]:
    return engine.source, number % SOURCE_PARTITIONS, number // SOURCE_PARTITIONS


def export_all(
    capsys: pytest.CaptureFixture[str], eventually: Eventually, url: str, *words: str
) -> str:
    """Export until a tree has timed out, which takes a while, and return the last output."""
    said = [""]

    def has_timed_out() -> bool:
        said[0] = says(capsys, "export-traces", "--otlp", url, "--since", "5m", *words)
        return "timed out" in said[0]

    eventually(has_timed_out, 60)
    return said[0]


@pytest.fixture
def collector() -> Iterator[OtlpCollector]:
    """A listening collector."""
    with OtlpCollector() as found:
        yield found


def test_failed_and_timed_out_trees_are_sent(
    engine: Engine,
    capsys: pytest.CaptureFixture[str],
    eventually: Eventually,
    collector: OtlpCollector,
) -> None:
    """They have the reason, down to the forgotten tuple, and a link to their producer."""
    said = export_all(capsys, eventually, collector.url)
    assert re.match(
        r"exported until \S+ UTC: \d+ trees sent \(1 failed, \d+ timed out; \d+ spans\)\n", said
    )
    messages = collector.messages()
    assert {place(engine, FORGOTTEN), place(engine, BAD)} <= messages.keys()
    for span in messages.values():
        assert span.status.code == span.status.STATUS_CODE_ERROR
        assert [link.span_id.hex() for link in span.links] == ["cd" * 8]
        assert attributes(span)["kstorm.read_wholly"] is True
    bad, forgotten = messages[place(engine, BAD)], messages[place(engine, FORGOTTEN)]
    assert "ValueError: no such sentence: this is bad" in bad.status.message
    assert forgotten.status.message == "not complete within 5.0 s"
    of_it = [
        span
        for span in collector.spans
        if span.trace_id == forgotten.trace_id and span.parent_span_id
    ]
    wrong = [span for span in of_it if span.status.code == span.status.STATUS_CODE_ERROR]
    assert {span.name for span in wrong} == {"execute count"}
    assert {span.name for span in of_it} == {"execute split", "execute count", "execute sink"}


@pytest.mark.slow
def test_slow_trees_are_sent_on_request(
    engine: Engine,
    capsys: pytest.CaptureFixture[str],
    eventually: Eventually,
    collector: OtlpCollector,
) -> None:
    """Their number is limited.

    Failed trees come first, and the rest is counted. A share selects the slowest.
    """
    said = export_all(capsys, eventually, collector.url, "--slower-than", "0.001ms", "--most", "10")
    found = re.search(
        r": (\d+) trees sent \(1 failed, \d+ timed out, \d+ slow; .* left out \(more than 10 per minute\)\n",
        said,
    )
    assert found
    assert 10 <= int(found[1]) < 20  # the limit grows with each second
    everyone = says(
        capsys,
        "export-traces",
        "--otlp",
        collector.url,
        "--since",
        "5m",
        "--slower-than",
        "0.001ms",
    )
    few = says(
        capsys, "export-traces", "--otlp", collector.url, "--since", "5m", "--slowest-share", "0.1"
    )
    assert _slow(few) < _slow(everyone)  # trees with equal durations may not exceed the share


def _slow(said: str) -> int:
    found = re.search(r"(\d+) slow", said)
    return int(found[1]) if found else 0


@pytest.mark.slow
def test_unread_trees_are_counted(
    engine: Engine,
    capsys: pytest.CaptureFixture[str],
    collector: OtlpCollector,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Trees are left out after the read limit. A partly read tree is marked."""
    monkeypatch.setattr(
        "kstorm.operations.traces.tree_exporter.ReadBudget",
        lambda most, seconds: ReadBudget(0, seconds),
    )
    said = says(capsys, "export-traces", "--otlp", collector.url, "--since", "5m")
    assert re.search(
        r": 0 trees sent; \d+ left out \(not found, or more than 512 MB per minute\)\n", said
    )
    monkeypatch.undo()
    monkeypatch.setattr(TreeBatch, "_read_news", read_news_only)
    said = says(capsys, "export-traces", "--otlp", collector.url, "--since", "5m")
    assert re.search(r"; \d+ sent incomplete \(more than 512 MB per minute\)", said)
    assert {attributes(span)["kstorm.read_wholly"] for span in collector.messages().values()} == {
        False
    }


_read_news = TreeBatch._read_news


def read_news_only(batch: TreeBatch, *limits: Any) -> None:
    """Read all of the ackers' topics, and spend the rest of the budget."""
    _read_news(batch, *limits)
    batch._log.budget.most_bytes = 0


@pytest.mark.slow
def test_collector_refuses_one_tree(
    engine: Engine,
    capsys: pytest.CaptureFixture[str],
    eventually: Eventually,
    collector: OtlpCollector,
) -> None:
    """The other trees are sent."""
    export_all(capsys, eventually, collector.url)
    collector.refused = collector.messages()[place(engine, BAD)].trace_id
    collector.spans.clear()
    said = says(capsys, "export-traces", "--otlp", collector.url, "--since", "5m")
    assert "; 1 refused by the collector" in said
    assert place(engine, FORGOTTEN) in collector.messages()


@pytest.mark.slow
def test_header_of_a_sink_record_is_a_span_of_the_trace(
    engine: Engine, capsys: pytest.CaptureFixture[str], collector: OtlpCollector
) -> None:
    """A consumer of the record can continue the trace without a lookup."""
    partition, header = _header(engine)
    parent = parse(header)
    assert parent is not None
    says(capsys, "trace", "--sink", f"{engine.sink}/{partition}/0", "--otlp", collector.url)
    (span,) = [
        span for span in collector.spans if int.from_bytes(span.span_id, "big") == parent.span
    ]
    assert (span.name, int.from_bytes(span.trace_id, "big")) == ("execute sink", parent.trace)


def _header(engine: Engine) -> tuple[int, str]:
    """Return the `traceparent` of the first record in a partition of the sink."""
    consumer = Consumer(
        {"bootstrap.servers": engine.bootstrap, "group.id": "headers", "log_level": 0}
    )
    try:
        consumer.assign(
            [TopicPartition(engine.sink, number, 0) for number in range(SINK_PARTITIONS)]
        )
        while True:
            record = consumer.poll(30)
            assert record is not None
            assert record.error() is None
            if record.offset() == 0:
                header = dict(record.headers() or [])["traceparent"]
                assert isinstance(header, bytes)
                return record.partition() or 0, header.decode()
    finally:
        consumer.close()


class Following:
    """`kstorm export-traces --follow` as a separate process."""

    def __init__(self, url: str, *words: str, **settings: str) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "kstorm.cli",
                "export-traces",
                "--follow",
                "--otlp",
                url,
                *words,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | settings,
            text=True,
        )

    def first_line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def first_complaint(self) -> str:
        assert self._process.stderr is not None
        return self._process.stderr.readline()

    def end(self) -> str:
        """Send SIGTERM and return the last output."""
        self._process.send_signal(signal.SIGTERM)
        out, err = self._process.communicate(timeout=60)
        assert self._process.returncode == 0, err
        return out


@pytest.mark.slow
def test_follow_resumes_at_the_stored_position(engine: Engine, eventually: Eventually) -> None:
    """It waits for an unavailable collector.

    Trees that failed while it was stopped are sent later.
    """
    port = reserve_port()
    following = Following(f"http://127.0.0.1:{port}")
    assert "sending trees that end from now on to" in following.first_line()
    engine.produce(["this is bad too"])
    first = place(engine, engine.produced - 1)
    assert (
        "does not accept spans, so trees wait in Kafka: next attempt in"
        in following.first_complaint()
    )
    with OtlpCollector(port) as collector:
        eventually(lambda: first in collector.messages(), 60)
        assert " tree" in following.end()
        engine.produce(["this is as bad"])
        second = place(engine, engine.produced - 1)
        engine.await_total("sentences", "failed", 4)
        following = Following(collector.url)
        assert "sending trees that ended since" in following.first_line()
        eventually(lambda: second in collector.messages(), 60)
        following.end()


@pytest.mark.slow
def test_follow_waits_for_the_topology(
    engine: Engine, topic_prefix: str, monkeypatch: pytest.MonkeyPatch, collector: OtlpCollector
) -> None:
    """Its pod may start before the topics exist. Without `--follow` this is an error."""
    demo = {"KSTORM_TOPOLOGY": "examples.wordcount.topology:demo", "WORDCOUNT_NAME": topic_prefix}
    following = Following(collector.url, **demo)
    assert re.match(
        rf"kstorm: the topology '{topic_prefix}' has no topic '\S+' at \S+: is it installed\?: next attempt in 1 s",
        following.first_complaint(),
    )
    subprocess.run(
        [sys.executable, "-m", "kstorm.cli", "prepare", "--allow-missing-ends"],
        env=os.environ | demo,
        check=True,
    )
    assert following.first_line().startswith(f"{topic_prefix}: sending trees that ")
    following.end()


@pytest.mark.slow
def test_probe_shows_its_tree_until_it_is_complete(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    """It waits for the sink too, if there is one.

    If the tree fails or is held, the exit code is 2.
    """
    probe = ("probe", "--source", engine.source, "--trace", "--message")
    done = says(capsys, *probe, "a {marker} cow", "--sink", engine.sink)
    assert done.count("✓ complete, proven (init ⊕ ") == 1
    assert done.splitlines()[-1].startswith(f"{engine.source} → {engine.sink}[")
    failed = says(capsys, *probe, "{marker} is bad", code=2)
    assert re.match(rf"kstorm: {engine.source}/\d/\d+ has failed: `kstorm why ", failed)
    held = says(capsys, *probe, "a moon", "--timeout", "3", code=2)
    assert re.search(
        r"(its tree is not complete|no tree of it was found) within 3 s: `kstorm why \S+` shows which task has it\n",
        held,
    )
    assert says(capsys, "probe", "--trace", code=2).startswith(
        "kstorm: --trace shows the tree of the sent message"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--slower-than", "2"], "--slower-than 2: give a time such as 500ms, 2s or 1m"),
        (
            ["--slower-than", "2s", "--slowest-share", "0.1"],
            "give either --slower-than or --slowest-share",
        ),
        (
            ["--slowest-share", "1"],
            "--slowest-share 1: give a share of the trees between 0 and 1, such as 0.01",
        ),
        (["--max-lag", "1"], "--max-lag 1: give an age such as 30s, 10m, 2h or 1d"),
        (
            ["--topology", "wordcount"],
            (
                "the code of 'wordcount' is needed, because it defines the topics of its tuples, "
                f"but KSTORM_TOPOLOGY is {REFERENCE}, which is the topology 'exported': give "
                "--topology MODULE:ATTR"
            ),
        ),
    ],
)
def test_mistake_is_one_line_with_the_remedy(
    engine: Engine, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert (
        says(capsys, "export-traces", "--otlp", "http://127.0.0.1:1", *words, code=2)
        == f"kstorm: {said}\n"
    )


@pytest.mark.slow
@pytest.mark.go
@pytest.mark.timeout(1800)
def test_jaeger_receives_the_traces(
    engine: Engine, capsys: pytest.CaptureFixture[str], eventually: Eventually, tmp_path: Path
) -> None:
    """Both commands send to a real collector, with correct parents, links and errors."""
    with Jaeger(tmp_path) as jaeger:
        export_all(capsys, eventually, jaeger.url)
        eventually(lambda: "exported" in jaeger.services(), 30)
        failed = jaeger.find("exported", **{"kstorm.exported_as": "failed"})
        assert failed
        for id in failed:
            tops = [
                span for span in jaeger.trace(id) if span["operationName"] == "process sentences"
            ]
            assert [_tags(span)["error"] for span in tops] == [True]
            assert "ValueError: no such sentence" in _tags(tops[0])["otel.status_description"]
        (late,) = [
            spans
            for id in jaeger.find("exported", **{"kstorm.exported_as": "timed out"})
            if _offset(spans := jaeger.trace(id)) == place(engine, FORGOTTEN)[2]
        ]
        wrong = sorted(span["operationName"] for span in late if _tags(span).get("error") is True)
        assert wrong == ["execute count", "process sentences"]
        _check_tree(late)

        partition, header = _header(engine)
        parent = parse(header)
        assert parent is not None
        says(capsys, "trace", "--sink", f"{engine.sink}/{partition}/0", "--otlp", jaeger.url)
        id = f"{parent.trace:032x}"
        eventually(lambda: jaeger.trace(id), 30)
        spans = jaeger.trace(id)
        assert f"{parent.span:016x}" in {span["spanID"] for span in spans}
        assert not any(_tags(span).get("error") for span in spans)
        _check_tree(spans)


def _check_tree(spans: list[dict[str, Any]]) -> None:
    """Check that one root is linked to the producer, and that every other span has an existing
    parent.

    Jaeger may only report clock skew, for tuples that are acked after their parents.
    """
    ids = {span["spanID"] for span in spans}
    assert len(ids) == len(spans) > 3
    tops = []
    for span in spans:
        parents = [one["spanID"] for one in span["references"] if one["refType"] == "CHILD_OF"]
        others = [one["spanID"] for one in span["references"] if one["refType"] == "FOLLOWS_FROM"]
        if parents:
            assert set(parents) <= ids
        else:
            tops.append(span["operationName"])
            assert others == ["cd" * 8]
        assert not [said for said in span["warnings"] or () if "clock skew" not in said], span
    assert tops == ["process sentences"]


def _tags(span: dict[str, Any]) -> dict[str, Any]:
    return {tag["key"]: tag["value"] for tag in span["tags"]}


def _offset(spans: list[dict[str, Any]]) -> int:
    (top,) = (span for span in spans if span["operationName"] == "process sentences")
    return int(_tags(top)["messaging.kafka.offset"])
