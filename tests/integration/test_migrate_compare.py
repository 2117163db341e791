"""`kstorm migrate compare` on a real Kafka."""

import json
import time

import pytest

from tests.integration.kafka_topic import Topic
from tests.kstorm_command import Command, run_kstorm


@pytest.fixture
def compare(topic: Topic, capsys: pytest.CaptureFixture[str]) -> Command:
    """A function that compares the test's two topics."""
    names = [f"{topic.name}-storm", f"{topic.name}-kstorm"]
    return lambda *words: run_kstorm(
        capsys, "migrate", "compare", *names, "--bootstrap", topic.kafka.bootstrap, *words
    )


@pytest.fixture
def storm(topic: Topic) -> Topic:
    """The topic of Storm's sink."""
    return Topic(f"{topic.name}-storm", topic.kafka).create(3)


@pytest.fixture
def kstorm(topic: Topic) -> Topic:
    """The topic of kstorm's sink. It has another number of partitions."""
    return Topic(f"{topic.name}-kstorm", topic.kafka).create(2)


def test_same_records_are_no_difference(storm: Topic, kstorm: Topic, compare: Command) -> None:
    """Their partition does not matter."""
    for number in range(3):
        storm.produce(b"1", b"2", partition=number, key=b"key-%d" % number)
        kstorm.produce(b"1", b"2", partition=number % 2, key=b"key-%d" % number)
    code, shown, _ = compare()
    assert code == 0
    assert f"keys missing in {kstorm.name}: 0, extra: 0, with differing records: 0" in shown


def test_differences_end_with_exit_code_1(storm: Topic, kstorm: Topic, compare: Command) -> None:
    storm.produce(b"1", key=b"gone")
    storm.produce(b"1", key=b"other")
    kstorm.produce(b"2", key=b"other")
    kstorm.produce(b"1", partition=1, key=b"new")
    code, shown, _ = compare()
    assert code == 1
    assert "first 3 of 3 differing keys" in shown
    assert f"keys missing in {kstorm.name}: 1, extra: 1, with differing records: 1" in shown
    code, shown, _ = compare("--json", "--limit", "1")
    found = json.loads(shown)
    assert (code, found["missing"], found["extra"], found["differs"]) == (1, 1, 1, 1)
    assert found["storm"] == {"topic": storm.name, "records": 2, "keys": 2}
    assert found["differences"] == [
        {"key": "gone", "kind": "missing", "storm": 1, "kstorm": 0, "unequal": 1}
    ]


def test_keys_and_age_choose_the_records(storm: Topic, kstorm: Topic, compare: Command) -> None:
    """Both options leave out the differing record."""
    storm.produce(b"1", key=b"us-1", timestamp=int((time.time() - 7200) * 1000))
    for each in (storm, kstorm):
        each.produce(b"1", key=b"eu-1")
    assert compare()[0] == 1
    assert compare("--key", "^eu-")[0] == 0
    assert compare("--since", "1h")[0] == 0
    code, _, told = compare("--key", "(")
    assert (code, "--key (: this is not a regular expression" in told) == (2, True)


def test_missing_topic_is_named(kstorm: Topic, topic: Topic, compare: Command) -> None:
    code, _, told = compare()
    assert (code, f"has no topic '{topic.name}-storm'" in told) == (2, True)
