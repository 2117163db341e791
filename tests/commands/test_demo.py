"""`kstorm demo` and `kstorm dev` as a user starts them, with few messages."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from kstorm.dev.paths import cache_directory
from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.errors import LocalError
from tests.command import ROOT, Command, started
from tests.conftest import Eventually

SENTENCES = 1200
LONG = 1500
PROGRESS = re.compile(r"\w+ +\d+% ")
"""A stage prints one such line every ten seconds."""


def run_demo(tmp_path: Path, *arguments: object) -> dict[str, object]:
    """Run the demo to its end and return its report."""
    report = tmp_path / "report.json"
    options = ["--sentences", SENTENCES, "--report", report, "--workdir", tmp_path / "runs"]
    with started("kstorm.dev.demo", *options, *arguments, home=tmp_path) as demo:
        assert demo.process.wait(LONG) == 0, demo.said
    assert "lost: 0, words over: 0." in demo.said
    lines = [line for line in demo.said.splitlines() if not PROGRESS.match(line)]
    assert len(lines) < 90, demo.said
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
    assert report["messages"] == report["acked"] == SENTENCES
    audited = {name: report["audit"][name] for name in ("messages", "done", "gaps", "faults")}  # type: ignore[index]
    assert audited == {"messages": SENTENCES, "done": SENTENCES, "gaps": 0, "faults": []}
    assert {
        name: report[name]
        for name in ("lost", "words_wrong", "words_over", "sink_records_repeated")
    } == {"lost": 0, "words_wrong": 0, "words_over": 0, "sink_records_repeated": 0}
    assert len(report["killed"]) == 2  # type: ignore[arg-type]
    assert list(report["took"]) == ["start", "servers", "processes", "sentences", "tables"]  # type: ignore[call-overload]
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
def test_run_without_kills_replays_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message is processed once, so no count is too high.

    The paths of the run and of the cache contain a space. The jars are copied, so nothing is
    downloaded.
    """
    spaced = tmp_path / "a folder"
    shutil.copytree(
        cache_directory() / "jars", spaced / "cache" / "jars", ignore=shutil.ignore_patterns(".*")
    )
    monkeypatch.setenv("KSTORM_CACHE", str(spaced / "cache"))
    report = run_demo(spaced, "--no-break")
    assert report["acked"] == SENTENCES
    assert {
        name: report[name] for name in ("failed", "replayed", "lost", "words_wrong", "words_over")
    } == {"failed": 0, "replayed": 0, "lost": 0, "words_wrong": 0, "words_over": 0}
    assert report["killed"] == []


@pytest.mark.timeout(LONG)
@pytest.mark.parametrize(
    ("stage", "after", "processes"),
    [
        pytest.param("servers", "logs and tables of this run", 2, marks=pytest.mark.slow),
        pytest.param("processes", "servers    100%", 4, marks=pytest.mark.slow),
        ("sentences", "processes  100%", 9),
        pytest.param("tables", "sentences  100%", 3, marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_stops_the_demo_and_all_its_processes(
    tmp_path: Path, eventually: Eventually, stage: str, after: str, processes: int
) -> None:
    """An interruption at any stage leaves no process behind, and costs one line of output."""
    with started("kstorm.dev.demo", "--sentences", 500, home=tmp_path) as demo:
        eventually(lambda: after in demo.said, 300)
        eventually(lambda: len(descendants(demo)) >= processes, 60)
        alive = descendants(demo)
        assert f"{stage:<10} 100%" not in demo.said
        demo.process.send_signal(signal.SIGINT)
        assert demo.process.wait(120) == 130
    assert "interrupted; everything that it had started was stopped" in demo.said.splitlines()[-1]
    assert "Traceback" not in demo.said
    assert not psutil.wait_procs(alive, timeout=10)[1]


def test_used_port_costs_one_line(tmp_path: Path) -> None:
    """Another program may take the port after kstorm has chosen it."""
    for server in (EmbeddedZooKeeper(tmp_path), EmbeddedKafka(tmp_path, quick_start=True)):
        address = server.connect if isinstance(server, EmbeddedZooKeeper) else server.bootstrap
        port = int(address.rpartition(":")[2])
        with socket.create_server(("127.0.0.1", port)), pytest.raises(LocalError) as error:
            server.start()
        assert f"another program uses its port {port}. Run the same command again" in str(
            error.value
        )
        assert "\n" not in str(error.value)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 MB. Kafka starts on it and fills it soon."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a disk")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.slow
@pytest.mark.timeout(LONG)
def test_full_disk_ends_the_demo_with_one_line(tmp_path: Path, small_disk: Path) -> None:
    """The demo does not wait for a server that has ended."""
    with started("kstorm.dev.demo", "--workdir", small_disk, home=tmp_path) as demo:
        assert demo.process.wait(120) == 2, demo.said
    last = demo.said.splitlines()[-1]
    assert last.startswith("kstorm demo: ")
    assert f"the disk of {small_disk}" in last
    assert "is full: " in last
    assert "Traceback" not in demo.said


@pytest.mark.slow
@pytest.mark.timeout(LONG)
def test_topology_runs_until_ctrl_c(tmp_path: Path, eventually: Eventually) -> None:
    """It processes the messages of its source topic, and the web UI shows it.

    Ctrl-C ends it with exit code 0.
    """
    with started(
        "kstorm", "dev", "examples.wordcount.topology:topology", home=tmp_path
    ) as topology:
        eventually(lambda: " produce " in topology.said, 300)
        found = next(line for line in topology.said.splitlines() if " produce " in line).split()
        command = [sys.executable, "-m", "kstorm", *found[found.index("produce") :]]
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
    ("verb", "arguments", "says"),
    [
        ("dev", ["nothing.here:topology"], "there is no module"),
        ("dev", ["examples.wordcount.topology:nothing"], "has no 'nothing'"),
        (
            "dev",
            ["examples.wordcount.topology:topology", "--topic", "a:b"],
            "--topic a:b: give NAME or NAME:PARTITIONS",
        ),
        ("demo", ["--report", "/"], "--report /: give a file in a folder that exists"),
        pytest.param(
            "demo",
            ["--bootstrap", "127.0.0.1:1", "--zookeeper", "127.0.0.1:1"],
            "no Kafka broker answered",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_mistake_costs_one_line(tmp_path: Path, verb: str, arguments: list[str], says: str) -> None:
    """A wrong argument ends the command with exit code 2 and a sentence, without a stack trace."""
    with started("kstorm", verb, *arguments, home=tmp_path) as command:
        assert command.process.wait(120) == 2
    last = command.said.splitlines()[-1]
    assert last.startswith(f"kstorm {verb}: ")
    assert says in last
    assert "Traceback" not in command.said
