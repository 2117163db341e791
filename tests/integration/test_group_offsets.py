"""Requests for the offsets and the members of groups, while Kafka starts and when it dies."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.errors import BrokerError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.offset_reader import OffsetReader
from tests.integration.engine import make_topics

_VERB = """
import sys
from kstorm.cli.__main__ import main
from kstorm.runtime.kafka import offset_reader

ask = offset_reader._ask

def paused(*call):
    print("asks", flush=True)
    sys.stdin.readline()
    return ask(*call)

offset_reader._ask = paused
main(sys.argv[1:])
"""
_ADMIN = """
import sys
from confluent_kafka import KafkaException, TopicPartition
from kstorm.errors import NoBrokerError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin

admin = Admin(Settings(topology="", bootstrap_servers=sys.argv[1]))
requests = {
    "describe": lambda within: admin.described_groups(["a", "b"], within),
    "store": lambda within: admin.store_offsets("c", [TopicPartition("words", 0, 1)], within),
}
for line in sys.stdin:
    request, within = line.split()
    try:
        requests[request](float(within))
    except (NoBrokerError, KafkaException):
        print("failed", flush=True)
    else:
        print("done", flush=True)
"""
_VERBS = (
    ("offsets", "show"),
    ("why", "--oldest"),
    ("export-traces", "--otlp", "http://127.0.0.1:1", "--follow"),
)


@pytest.mark.slow
def test_offsets_of_a_new_kafka(tmp_path: Path) -> None:
    """A new Kafka creates the offsets topic at the first request. For a moment its broker is not
    the coordinator, which would abort the process of an admin client."""
    with EmbeddedKafka(tmp_path, quick_start=True) as kafka:
        settings = Settings(topology="", bootstrap_servers=kafka.bootstrap)
        make_topics(kafka.bootstrap, {"words": 2})
        reader, places = OffsetReader(settings), [TopicPartition("words", at) for at in range(2)]
        assert reader.stored({"none": places}) == {"none": []}
        Admin(settings).store_offsets("some", [TopicPartition("words", 1, 7, metadata="note")])
        (found,) = reader.stored({"some": places})["some"]
        assert (found.partition, found.offset, found.metadata) == (1, 7, "note")
        assert [place.offset for place in reader.all_stored("some")] == [7]
        kafka.kill()
        with pytest.raises(BrokerError, match=rf"Kafka at {kafka.bootstrap} did not .*'some'"):
            reader.stored({"some": places}, 2.0)


@pytest.mark.slow
def test_no_verb_is_aborted_when_kafka_dies_while_it_asks(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    """Each verb ends with one line that names Kafka."""
    with EmbeddedKafka(tmp_path, quick_start=True) as kafka:
        make_topics(kafka.bootstrap, {"dies-in": 1, "dies-out": 1})
        environment = {
            "KSTORM_BOOTSTRAP_SERVERS": kafka.bootstrap,
            "KSTORM_ZOOKEEPER": zookeeper.connect,
            "KSTORM_TOPOLOGY": "tests.integration.topologies:forgetful",
            "KSTORM_TEST_PREFIX": "dies",
            "KSTORM_TEST_GUARANTEE": "exactly_once",
        }
        command = [sys.executable, "-m", "kstorm.cli", "prepare"]
        subprocess.run(command, env=os.environ | environment, check=True)
        with ExitStack() as verbs:
            asking = [verbs.enter_context(_process(_VERB, *verb, **environment)) for verb in _VERBS]
            for each in asking:
                assert _line(each) == "asks"
            kafka.kill()
            for verb, each in zip(_VERBS, asking, strict=True):
                said, complained = each.communicate("\n" * 9, timeout=90)
                assert each.returncode == 2, (verb, said, complained)
                (line,) = complained.splitlines()
                assert line.startswith(f"kstorm: Kafka at {kafka.bootstrap} did not return"), line


@pytest.mark.slow
def test_client_survives_a_request_that_timed_out_when_kafka_returns(tmp_path: Path) -> None:
    """librdkafka keeps the request of a coordinator, and aborts the process at the next one."""
    with EmbeddedKafka(tmp_path, quick_start=True) as kafka, ExitStack() as processes:
        make_topics(kafka.bootstrap, {"words": 1})
        asking = {
            request: processes.enter_context(_process(_ADMIN, kafka.bootstrap))
            for request in ("describe", "store")
        }

        def send(request: str, within: float) -> None:
            stdin = asking[request].stdin
            assert stdin is not None
            stdin.write(f"{request} {within}\n")
            stdin.flush()

        def ask(request: str) -> str:
            send(request, 2.0)
            return _line(asking[request])

        for request in asking:
            send(request, 60.0)  # their coordinator is not ready yet
        assert [_line(process) for process in asking.values()] == ["done"] * 2
        kafka.kill()
        for request in asking:
            assert [ask(request) for _ in range(3)] == ["failed"] * 3
        kafka.start()
        for request, process in asking.items():
            while (answer := ask(request)) != "done":
                assert answer == "failed", process.wait(10)


@contextmanager
def _process(
    program: str, *arguments: str, **environment: str
) -> Iterator["subprocess.Popen[str]"]:
    """Run a Python program, and kill it at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | environment,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
