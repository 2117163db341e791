"""Operators' actions are recorded as events of the topology.

A missing event never blocks an action.
"""

from collections.abc import Callable

import msgspec
import pytest
from kazoo.client import KazooClient

from kstorm.cli.__main__ import main
from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.runtime.kafka.event_log import read_events
from kstorm.runtime.kafka.single_partition_topic import write_topic
from kstorm.runtime.zookeeper.topology_nodes import SpoutReport, report_path
from tests.integration.dead_letters import Letters

Command = Callable[..., object]


@pytest.fixture
def kstorm(
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Command:
    """A function that runs a command for a topology in ZooKeeper and returns the exit code."""
    monkeypatch.setenv("KSTORM_OPERATOR", "anna@laptop")
    monkeypatch.setenv("KSTORM_BOOTSTRAP_SERVERS", kafka.bootstrap)
    monkeypatch.setenv("KSTORM_ZOOKEEPER", zookeeper.connect)

    def run(verb: str, *words: str) -> object:
        with pytest.raises(SystemExit) as ended:
            main([verb, topic_prefix, *words])
        return ended.value.code

    return run


def test_actions_are_recorded_with_operator_and_outcome(
    kafka: EmbeddedKafka, topic_prefix: str, client: KazooClient, kstorm: Command
) -> None:
    """This includes a drain that takes too long, `kill` by `forget` in a pod, and `scale` by
    `note`."""
    letters = Letters(kafka, topic_prefix)
    for verb in ("deactivate", "activate"):
        assert kstorm(verb) == 0
    report = SpoutReport("lines", "wc-lines-0", False, 7, 0, 30.0)
    client.create(report_path(topic_prefix, report), msgspec.json.encode(report), ephemeral=True)
    assert kstorm("drain", "--timeout", "0") == 3
    client.delete(report_path(topic_prefix, report))
    assert kstorm("forget") == 0
    assert kstorm("note", "scale", "--what=count=2", "--outcome=count: 1 → 2") == 0
    write_topic(letters.settings, f"{topic_prefix}.__events", [(None, b"no event"), (None, None)])
    found = list(read_events(letters.settings, topic_prefix))
    assert [(event.who, event.verb) for event in found] == [
        ("anna@laptop", verb) for verb in ("deactivate", "activate", "drain", "kill", "scale")
    ]
    assert [event.outcome == "done" for event in found] == [True, True, False, True, False]
    assert (found[4].what, found[4].outcome) == ("count=2", "count: 1 → 2")
    assert "still has 7 trees in flight" in found[2].outcome


@pytest.mark.slow
def test_action_succeeds_if_its_event_cannot_be_recorded(
    topic_prefix: str,
    client: KazooClient,
    kstorm: Command,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command reports the reason."""
    assert kstorm("deactivate") == 0
    assert "Kafka has no topic for them; restart the topology to create it" in (
        capsys.readouterr().err
    )
    monkeypatch.setenv("KSTORM_BOOTSTRAP_SERVERS", "localhost:1")
    assert kstorm("activate") == 0
    said = capsys.readouterr()
    assert "is active again" in said.out
    assert (
        f"this action is not recorded in the events of {topic_prefix!r}: no Kafka broker answered"
        in said.err
    )
    monkeypatch.delenv("KSTORM_BOOTSTRAP_SERVERS")
    assert kstorm("deactivate") == 0
    assert "no Kafka is named; give --bootstrap" in capsys.readouterr().err
