"""`kstorm dlq` and `kstorm events` on a real Kafka, with letters in the format of engines."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined] # its stubs hide some

from kstorm.dev.servers import EmbeddedKafka
from kstorm.operations.letters.selection import fingerprint
from kstorm.runtime.kafka.single_partition_topic import write_topic
from tests.conftest import Eventually
from tests.from_kubeconfig import from_kubeconfig
from tests.integration.dead_letters import SECRET, Letters
from tests.kstorm_command import Command, run_kstorm
from tests.kubernetes_stub import KubernetesStub


@pytest.fixture
def kstorm(
    kafka: EmbeddedKafka, topic_prefix: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> Command:
    """A function that runs the command for the test's topology and returns exit code, output and
    errors."""
    monkeypatch.setenv("KSTORM_OPERATOR", "anna@laptop")
    monkeypatch.setenv("COLUMNS", "250")

    return lambda *words: run_kstorm(
        capsys, *words, "--topology", topic_prefix, "--bootstrap", kafka.bootstrap
    )


def events(kstorm: Command) -> list[Mapping[str, Any]]:
    """Return the recorded events without their times."""
    found = [json.loads(line) for line in kstorm("events", "--json")[1].splitlines()]
    assert all(event.pop("at") > 1_700_000_000_000 for event in found)
    return found


def test_list_shows_error_and_place_but_not_the_message(letters: Letters, kstorm: Command) -> None:
    letters.write(letters.letter(7), letters.strange(8))
    code, shown, complained = kstorm("dlq", "list")
    assert (code, complained) == (0, "")
    first, second = shown.splitlines()[3:5]
    for part in (
        "2023-11-14 22:13:27",
        "failed",
        "price",
        "orders/3/7",
        "5",
        "ValueError: no such product 7",
    ):
        assert part in first
    assert "\\u001b[31mred" in second
    found = [json.loads(line) for line in kstorm("dlq", "list", "--json")[1].splitlines()]
    assert [(one["number"], one["kind"], one["offset"]) for one in found] == [
        (0, "failed", 7),
        (1, "undecodable", 8),
    ]
    assert all(not {"key", "value", "headers"} & one.keys() for one in found)
    assert SECRET.decode() not in shown


@pytest.mark.slow
def test_list_with_filters(letters: Letters, kstorm: Command) -> None:
    letters.write(letters.letter(7), letters.strange(8), letters.letter(9))

    def numbers(*words: str) -> list[int]:
        return [
            json.loads(line)["number"]
            for line in kstorm("dlq", "list", "--json", *words)[1].splitlines()
        ]

    assert numbers("--kind", "failed") == [0, 2]
    assert numbers("--component", "price") == [0, 2]
    assert numbers("--since", "@1700000008000") == [1, 2]
    assert numbers("--since", "1d") == []
    assert numbers("--match", "product 9$", "--kind", "failed") == [2]
    assert kstorm("dlq", "list", "--kind", "none") == (0, "no dead letters\n", "")
    assert kstorm("dlq", "list", "--match", "(")[0] == 2
    assert "give an age (30m, 2h, 1d)" in kstorm("dlq", "list", "--since", "tuesday")[2]


@pytest.mark.slow
def test_show_prints_everything_escaped(letters: Letters, kstorm: Command) -> None:
    """A client's control characters must not reach the terminal."""
    odd = letters.letter(
        7,
        value=b"\x1b]0;title\x07 " + SECRET,
        headers=[("from", "\x1b[2J")],
        roots=["00000000000000aa"],
    )
    letters.write(odd)
    code, shown, _ = kstorm("dlq", "show", "0")
    assert code == 0
    assert "\x1b" not in shown
    for line in (
        r"value +\\u001b\]0;title\\u0007 card 4111",
        r"header from \\u001b\[2J",
        "raised +in price, task 2, at price.py:41",
    ):
        assert re.search(f"^{line}$", shown, re.MULTILINE), (line, shown)
    raw = json.loads(kstorm("dlq", "show", "0", "--raw")[1])
    assert (raw["number"], raw["group"], raw["roots"]) == (
        0,
        fingerprint(odd),
        ["00000000000000aa"],
    )


@pytest.mark.slow
def test_show_of_a_missing_letter(letters: Letters, kstorm: Command) -> None:
    """The letter was discarded, or replaced by a newer one."""
    letters.write(letters.letter(7), letters.letter(7, attempts=9))
    for number in ("0", "2"):
        code, _, complained = kstorm("dlq", "show", number)
        assert code == 2
        assert f"has no dead letter {number}" in complained
    assert "attempts    9" in kstorm("dlq", "show", "1")[1]


@pytest.mark.slow
def test_export_prints_complete_letters(letters: Letters, kstorm: Command) -> None:
    letters.write(letters.letter(7), letters.strange(8), letters.letter(9))
    group = fingerprint(letters.letter(0))
    found = [
        json.loads(line) for line in kstorm("dlq", "export", "--group", group[:4])[1].splitlines()
    ]
    assert [(one["number"], one["value"]) for one in found] == [
        (0, "Y2FyZCA0MTEx"),
        (2, "Y2FyZCA0MTEx"),
    ]
    assert len(kstorm("dlq", "export")[1].splitlines()) == 3


def test_discard_writes_a_tombstone_and_an_event(letters: Letters, kstorm: Command) -> None:
    """Other letters stay."""
    letters.write(letters.letter(7), letters.letter(8))
    code, shown, _ = kstorm("dlq", "discard", "1", "--yes", "--note", "gone for good")
    assert code == 0
    assert shown.endswith(
        "1 discarded; Kafka deletes their contents when it next compacts the topic\n"
    )
    assert letters.kept()[2] == (b"orders/3/8/lines", None)
    assert [
        json.loads(line)["number"] for line in kstorm("dlq", "list", "--json")[1].splitlines()
    ] == [0]
    expected = {
        "who": "anna@laptop",
        "verb": "discard",
        "what": "1",
        "note": "gone for good",
        "outcome": "1 discarded",
    }
    assert events(kstorm) == [expected]
    assert kstorm("events", "--since", "1h")[1].count("anna@laptop") == 1
    code, _, complained = kstorm("dlq", "discard", "0", "1", "--yes")
    assert (code, "has no dead letter 1:" in complained, len(letters.kept())) == (2, True, 3)


@pytest.mark.slow
def test_discard_of_a_group_asks_first(letters: Letters, kstorm: Command) -> None:
    """`--dry-run` lists the letters. Without a terminal the command requires `--yes`."""
    letters.write(letters.letter(7), letters.strange(8), letters.letter(9))
    group = fingerprint(letters.letter(0))[:5]
    assert kstorm("dlq", "discard", "--group", group, "--dry-run")[1].count("no such product") == 2
    code, _, complained = kstorm("dlq", "discard", "--group", group)
    assert (code, "give --yes" in complained, len(letters.kept())) == (2, True, 3)
    assert kstorm("dlq", "discard", "--group", group, "--yes")[0] == 0
    assert [
        json.loads(line)["number"] for line in kstorm("dlq", "list", "--json")[1].splitlines()
    ] == [1]
    assert events(kstorm)[0]["what"] == f"0, 2 (group {group})"
    for words in ((), ("0", "--group", group)):
        assert "Give their numbers, or --group" in kstorm("dlq", "discard", *words, "--yes")[2]
    assert "give 4 to 8 hex digits" in kstorm("dlq", "discard", "--group", "xyz1", "--yes")[2]


@pytest.mark.slow
def test_kafka_deletes_discarded_letters(
    kafka: EmbeddedKafka, topic_prefix: str, kstorm: Command, eventually: Eventually
) -> None:
    """The topic has Kafka's compaction, here without delays."""
    letters = Letters(kafka, topic_prefix)
    letters.write(letters.letter(7), letters.letter(8))
    assert kstorm("dlq", "discard", "0", "--yes")[0] == 0
    hasty = {
        "segment.ms": "100",
        "max.compaction.lag.ms": "1000",
        "min.cleanable.dirty.ratio": "0.01",
    }
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in hasty.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, letters.topic, incremental_configs=entries)
    letters.admin.incremental_alter_configs([resource])[resource].result(30)
    numbers = iter(range(100, 1000))

    def gone() -> bool:
        letters.write(letters.letter(next(numbers)))  # the next record ends a segment
        return 0 not in letters.kept()

    eventually(gone, 90)
    kept = letters.kept()
    assert SECRET not in b"".join(
        value or b"" for number, (_, value) in kept.items() if number == 0
    )
    assert json.loads(kept[1][1] or b"{}")["offset"] == 8, "what was not discarded is there"


@pytest.mark.slow
def test_letters_of_kstorm_0_1_are_listed_but_not_discarded(
    kafka: EmbeddedKafka, topic_prefix: str, kstorm: Command
) -> None:
    """Their topic is not compacted, and they have no keys."""
    letters = Letters(kafka, topic_prefix, **{"cleanup.policy": "delete"})
    old = {
        "topology": "t",
        "component": "lines",
        "task": 1,
        "reason": "failed, and its retries are used up",
        "offset": 3,
    }
    write_topic(
        letters.settings, letters.topic, [(None, json.dumps(old).encode()), (None, b"not mine")]
    )
    letters.write(letters.letter(7))
    shown, complained = kstorm("dlq", "list")[1:]
    assert "failed, and its retries are used up" in shown
    assert complained == "kstorm: left out 1 invalid record of the dead-letter topic\n"
    assert "because they have no key" in kstorm("dlq", "discard", "0", "--yes")[2]
    assert (
        "is not compacted: see docs/guides/dead-letters.md"
        in kstorm("dlq", "discard", "2", "--yes")[1]
    )


@pytest.mark.slow
def test_watch_ends_at_a_new_group(
    letters: Letters, kstorm: Command, capsys: pytest.CaptureFixture[str], eventually: Eventually
) -> None:
    """Existing letters are not shown, and similar ones do not end it."""
    letters.write(letters.letter(7))
    found: list[tuple[object, str, str]] = []
    watching = Thread(target=lambda: found.append(kstorm("dlq", "watch", "--timeout", "60")))
    watching.start()
    said = ""

    def watches() -> bool:
        nonlocal said
        said += capsys.readouterr().err
        return "1 groups so far" in said

    eventually(watches, 30)
    letters.write(letters.letter(8))
    letters.write(letters.strange(9))
    watching.join(60)
    ((code, shown, _),) = found
    lines = shown.splitlines()
    assert (code, len(lines)) == (1, 2)
    assert lines[0].startswith("#1 2023-11-14 22:13:28 failed price orders/3/8 [")
    assert kstorm("dlq", "watch", "--timeout", "1")[:2] == (0, "")


@pytest.mark.slow
def test_missing_topic_is_named(kafka: EmbeddedKafka, topic_prefix: str, kstorm: Command) -> None:
    for words in (("dlq", "list"), ("events",)):
        code, _, complained = kstorm(*words)
        assert code == 2
        assert re.search(f"has no topic '{topic_prefix}.__(dead_letters|events)'", complained)


@pytest.fixture
def cluster(
    kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KubernetesStub]:
    """A cluster with a topology. Only its pods know Kafka."""
    components, variables = (
        (("lines", "spout"), ("acker", "acker")),
        {"KSTORM_BOOTSTRAP_SERVERS": kafka.bootstrap},
    )
    with from_kubeconfig(tmp_path, monkeypatch, topic_prefix, components, variables) as stub:
        yield stub
