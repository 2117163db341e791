"""`./run demo` and `./run topology` as a user starts them, with few messages."""

import json
import re
import signal
import subprocess
import urllib.request
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from kstorm.local.servers import EmbeddedKafka, EmbeddedZooKeeper
from tests.command import ROOT, Command, started
from tests.conftest import Eventually

MESSAGES = 1200
LONG = 1500


def run_demo(tmp_path: Path, *arguments: object) -> dict[str, object]:
    """Run the demo to its end and return its report."""
    report = tmp_path / "report.json"
    options = ["--messages", MESSAGES, "--report", report, "--workdir", tmp_path / "runs"]
    with started("kstorm.local.demo", *options, *arguments, home=tmp_path) as demo:
        assert demo.process.wait(LONG) == 0, demo.said
    found: dict[str, object] = json.loads(report.read_text())
    return found


def descendants(command: Command) -> list[psutil.Process]:
    """Return all processes that the command has started."""
    return psutil.Process(command.process.pid).children(recursive=True)


@pytest.mark.timeout(LONG + 60)
def test_killing_an_acker_and_a_counting_process_loses_nothing(
    tmp_path: Path, kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper
) -> None:
    """Every word is counted once and gold is exact.

    The run leaves nothing on the user's own servers.
    """
    report = run_demo(tmp_path, "--bootstrap", kafka.bootstrap, "--zookeeper", zookeeper.connect)
    assert report["messages"] == report["acked"] == MESSAGES
    audited = {name: report["audit"][name] for name in ("messages", "done", "gaps", "faults")}  # type: ignore[index]
    assert audited == {"messages": MESSAGES, "done": MESSAGES, "gaps": 0, "faults": []}
    assert {
        name: report[name]
        for name in ("lost", "words_wrong", "words_over", "sink_records_repeated")
    } == {
        "lost": 0,
        "words_wrong": 0,
        "words_over": 0,
        "sink_records_repeated": 0,
    }
    assert len(report["killed"]) == 2  # type: ignore[arg-type]
    assert report["gold_rows"] == report["words_checked"]
    topics = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=30).topics
    assert not [topic for topic in topics if topic.startswith("kstorm-demo-")]
    client = KazooClient(zookeeper.connect)
    client.start(timeout=30)
    try:
        assert not [
            node for node in client.get_children("/kstorm") if node.startswith("kstorm-demo-")
        ]
    finally:
        client.stop()
        client.close()


@pytest.mark.slow
@pytest.mark.timeout(LONG + 60)
def test_run_without_kills_replays_nothing(tmp_path: Path) -> None:
    """Each message is processed once, so no count is too high."""
    report = run_demo(tmp_path, "--no-break")
    assert report["acked"] == MESSAGES
    assert {
        name: report[name] for name in ("failed", "replayed", "lost", "words_wrong", "words_over")
    } == {
        "failed": 0,
        "replayed": 0,
        "lost": 0,
        "words_wrong": 0,
        "words_over": 0,
    }
    assert report["killed"] == []


@pytest.mark.timeout(LONG)
def test_ctrl_c_stops_the_demo_and_all_its_processes(
    tmp_path: Path, eventually: Eventually
) -> None:
    """An interruption leaves no process behind, and costs one line of output."""
    with started("kstorm.local.demo", home=tmp_path) as demo:
        eventually(lambda: "starting 7 processes" in demo.said, 300)
        eventually(lambda: len(descendants(demo)) >= 9, 60)  # two servers and seven workers
        alive = descendants(demo)
        demo.process.send_signal(signal.SIGINT)
        assert demo.process.wait(120) == 130
    assert "interrupted; everything that it had started is stopped" in demo.said.splitlines()[-1]
    assert not psutil.wait_procs(alive, timeout=10)[1]


@pytest.mark.slow
@pytest.mark.timeout(LONG)
def test_topology_runs_until_ctrl_c(tmp_path: Path, eventually: Eventually) -> None:
    """It processes the messages of its source topic, and the web UI shows it.

    Ctrl-C ends it with exit code 0.
    """
    with started(
        "kstorm.local.topology", "examples.wordcount.topology:topology", home=tmp_path
    ) as topology:
        eventually(lambda: "kstorm.cli produce" in topology.said, 300)
        command = next(
            line for line in topology.said.splitlines() if "kstorm.cli produce" in line
        ).split()
        subprocess.run(command, cwd=ROOT, input=b"to be or not to be\n\n", check=True, timeout=120)
        bootstrap = command[-1]
        assert read_words(bootstrap, "word-counts", 6) == {"to": 2, "be": 2, "or": 1, "not": 1}
        [url] = re.findall(r"in a browser: (http://localhost:\d+/)", topology.said)
        eventually(lambda: "wordcount" in text_of(url), 60)
        eventually(
            lambda: "acked " in topology.said, 120
        )  # words may arrive before the last process is ready
        alive = descendants(topology)
        topology.process.send_signal(signal.SIGINT)
        assert topology.process.wait(180) == 0, topology.said
    assert not psutil.wait_procs(alive, timeout=10)[1]


def text_of(url: str) -> str:
    """Return a web page. The text is empty if the server does not respond."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            found: bytes = answer.read()
    except OSError:
        return ""
    return found.decode()


def read_words(bootstrap: str, topic: str, records: int) -> dict[str, int]:
    """Return the highest count of each word in the topic's first records.

    The topic may be missing at first.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "test",
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 1000,
        }
    )
    consumer.subscribe([topic])
    counts: dict[str, int] = {}
    try:
        while records:
            message = consumer.poll(240)
            assert message is not None, f"{records} records did not come"
            if message.error() is None:
                found = json.loads(message.value() or b"")
                counts[found["word"]] = max(found["count"], counts.get(found["word"], 0))
                records -= 1
    finally:
        consumer.close()
    return counts


@pytest.mark.parametrize(
    ("module", "arguments", "says"),
    [
        ("topology", ["nothing.here:topology"], "there is no module"),
        ("topology", ["examples.wordcount.topology:nothing"], "has no 'nothing'"),
        (
            "topology",
            ["examples.wordcount.topology:topology", "--topic", "a:b"],
            "--topic a:b: give NAME or NAME:PARTITIONS",
        ),
        ("demo", ["--report", "/"], "--report /: give a file in a folder that exists"),
        (
            "demo",
            ["--bootstrap", "127.0.0.1:1", "--zookeeper", "127.0.0.1:1"],
            "no Kafka broker answered",
        ),
    ],
)
def test_mistake_costs_one_line(
    tmp_path: Path, module: str, arguments: list[str], says: str
) -> None:
    """A wrong argument ends the command with exit code 2 and a sentence, without a stack trace."""
    with started(f"kstorm.local.{module}", *arguments, home=tmp_path) as command:
        assert command.process.wait(120) == 2
    last = command.said.splitlines()[-1]
    assert last.startswith(f"kstorm {module}: ")
    assert says in last
    assert "Traceback" not in command.said
