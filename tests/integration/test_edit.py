"""`kstorm dlq edit` on a real Kafka: the scheme checks the new value, the spout emits it, and no
command line has it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kstorm.cli.__main__ import main
from kstorm.dev.servers import EmbeddedKafka
from kstorm.kafka.replay_requests import ReplayRequest
from kstorm.operations.letters.reading import read_letters
from kstorm.runtime.kafka.event_log import read_events
from tests.from_kubeconfig import from_kubeconfig
from tests.integration.dead_letters import Letters
from tests.kstorm_command import Command, run_kstorm
from tests.kubernetes_stub import KubernetesStub

CODE = """
from kstorm.kafka import JsonScheme, KafkaBolt, KafkaHosts, KafkaSpout, ProcessingGuarantee, SchemeAsMultiScheme, SpoutConfig
from kstorm.testing import FeederSpout
from kstorm.topology import Config, Fields, TopologyBuilder

def made(**settings):
    builder = TopologyBuilder({name!r}, Config(**settings))
    scheme = SchemeAsMultiScheme(JsonScheme("item", "price"))
    for id, guarantee in [("lines", "AT_LEAST_ONCE")] + [("once", "AT_MOST_ONCE")] * (not settings):
        config = SpoutConfig(
            KafkaHosts(), "orders", id=id, scheme=scheme, processing_guarantee=ProcessingGuarantee[guarantee]
        )
        builder.set_spout(id, KafkaSpout(config))
    if not settings:
        builder.set_spout("fed", FeederSpout(Fields("item")))
    return builder.build()

topology = made()
def exact():
    return made(topology_processing_guarantee="exactly_once")
"""
OLD = b'{"item": "cow", "price": "\xff"}'
NEW = '{"item": "cow", "price": 7}'


@pytest.fixture
def code(topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of the topology's module."""
    module = f"code_{abs(hash(topic_prefix))}"
    (tmp_path / f"{module}.py").write_text(CODE.replace("{name!r}", repr(topic_prefix)))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("KSTORM_OPERATOR", "anna@laptop")
    for name in ("EDITOR", "VISUAL", "KSTORM_TOPOLOGY", "KSTORM_BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(name, raising=False)
    return module


@pytest.fixture
def edit(kafka: EmbeddedKafka, code: str, capsys: pytest.CaptureFixture[str]) -> Command:
    """A function that runs the command and returns exit code, output and errors."""

    def run(*words: str, topology: str = f"{code}:topology") -> tuple[object, str, str]:
        where = ("--topology", topology, "--bootstrap", kafka.bootstrap)
        return run_kstorm(capsys, "dlq", "edit", *words, *where)

    return run


def said(letters: Letters) -> list[tuple[str, str, str, str, str]]:
    found = read_events(letters.settings, letters.name)
    return [(event.who, event.verb, event.what, event.note, event.outcome) for event in found]


def editor(tmp_path: Path, script: str) -> str:
    """Return an editor that runs a script. `$1` is the file."""
    path = tmp_path / "editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def expect_request(letters: Letters) -> ReplayRequest:
    """Assert that one replay is requested, of the first letter with the new value."""
    ((key, order),) = letters.orders()
    assert (key, order.value, order.key, order.headers) == (
        b"orders/3/7/lines",
        NEW.encode(),
        b"k",
        [("a", "b")],
    )
    return order


def test_replay_with_a_value_that_the_scheme_can_read(
    letters: Letters, edit: Command, tmp_path: Path
) -> None:
    """The event has the operator, but no values."""
    letters.write(letters.letter(7, value=OLD, key=b"k", headers=[("a", "b")]))
    code, shown, _ = edit("0", "--value", NEW, "--dry-run")
    assert (code, shown) == (0, "item='cow', price=7\n")
    code, _, complained = edit("0", "--value", '{"item": "cow"}', "--yes")
    assert (code, "the scheme of 'lines' cannot read the new value" in complained) == (2, True)
    code, _, complained = edit("0", "--value", NEW)
    assert (code, "give --yes" in complained, letters.orders(), said(letters)) == (2, True, [], [])
    (tmp_path / "new").write_text(NEW)
    code, shown, _ = edit("0", "--file", str(tmp_path / "new"), "--yes", "--note", "a price")
    assert (code, shown) == (0, "1 replay requested: `kstorm events` shows the outcome\n")
    order = expect_request(letters)
    assert (order.number, order.offset, order.attempts, order.replays, order.who) == (
        0,
        7,
        5,
        1,
        "anna@laptop",
    )
    assert said(letters) == [("anna@laptop", "edit", "0", "a price", "1 replay requested")]
    assert "its replay is in progress" in edit("0", "--value", NEW, "--yes")[2]


def test_exactly_once_edit_is_a_replay(letters: Letters, edit: Command, code: str) -> None:
    """The letter of a bolt's tuple cannot be edited."""
    letters.write(
        letters.letter(7, value=OLD, key=b"k", headers=[("a", "b")]),
        letters.letter(8, value=OLD, replays=3),
        letters.letter(9, topic=f"{letters.name}.lines", row=2, roots=["00" * 8]),
    )
    exact = f"{code}:exact"
    given = ("--value", NEW, "--yes", "--note", "a price")
    assert "cannot read the new value" in edit("0", "--value", "{}", "--yes", topology=exact)[2]
    assert "--force" in edit("1", *given, topology=exact)[2]
    assert "bolts give tuples up" in edit("2", *given, topology=exact)[2]
    assert edit("0", *given, topology=exact)[:2] == (
        0,
        "1 replay requested: `kstorm events` shows the outcome\n",
    )
    expect_request(letters)
    assert said(letters)[-1] == ("anna@laptop", "edit", "0", "a price", "1 replay requested")
    assert [one.number for one in read_letters(letters.settings, letters.name).letters] == [0, 1, 2]


@pytest.mark.slow
def test_editor_shows_the_old_value(
    letters: Letters, edit: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is deleted afterwards. A newline at its end is ignored."""
    letters.write(letters.letter(7, value=OLD))
    assert "EDITOR is not set" in edit("0", "--yes")[2]
    monkeypatch.setenv("EDITOR", editor(tmp_path, "exit 3"))
    assert "exited with code 3, and no replay was requested" in edit("0", "--yes")[2]
    monkeypatch.setenv("EDITOR", editor(tmp_path, 'echo >> "$1"'))
    assert "0 already has this value" in edit("0", "--yes")[2]
    seen = tmp_path / "seen"
    monkeypatch.setenv(
        "VISUAL",
        editor(tmp_path, f'cp "$1" {seen}; echo "$1" > {seen}.path; echo \'{NEW}\' > "$1"'),
    )
    assert edit("0", "--yes")[0] == 0
    assert seen.read_bytes() == OLD
    assert not Path((tmp_path / "seen.path").read_text().strip()).exists()
    assert [order.value for _, order in letters.orders()] == [NEW.encode()]


@pytest.mark.slow
def test_letters_that_cannot_be_edited(letters: Letters, edit: Command, code: str) -> None:
    """Each error has one line with the reason."""
    letters.write(
        letters.letter(1, value=OLD, component="fed"),
        letters.letter(2, value=OLD, component="once"),
        letters.letter(3, value=OLD, component="gone"),
        letters.letter(-1, value=OLD, topic="", partition=-1),
        letters.letter(5, value=OLD, replays=3),
    )
    given = ("--value", NEW, "--yes")
    for number, why in enumerate(
        (
            "'fed', which gave it up, is not a KafkaSpout",
            "'once' replays nothing, because its processing_guarantee is",
            "'gone', which gave it up, is not a KafkaSpout",
            "not a message of a source topic",
            "--force replays it",
        )
    ):
        status, _, complained = edit(str(number), *given)
        assert (status, why in complained, complained.count("\n")) == (2, True, 1), complained
    assert f"the code of {letters.name!r} is needed" in edit("4", *given, topology=letters.name)[2]
    assert "has no dead letter 9" in edit("9", *given)[2]
    assert "with --value or --file" in edit("4", "--value", "x", "--file", __file__)[2]
    assert letters.orders() == []
    assert edit("4", *given, "--force")[0] == 0


@pytest.fixture
def cluster(
    kafka: EmbeddedKafka, letters: Letters, code: str, tmp_path: Path, monkeypatch: Any
) -> Iterator[KubernetesStub]:
    """A cluster with the topology. Only its pods have the code and know Kafka."""
    variables = {"KSTORM_BOOTSTRAP_SERVERS": kafka.bootstrap, "KSTORM_TOPOLOGY": f"{code}:topology"}
    with from_kubeconfig(
        tmp_path, monkeypatch, letters.name, [("lines", "spout")], variables
    ) as stub:
        yield stub


@pytest.mark.slow
def test_pod_receives_the_value_on_standard_input(
    cluster: KubernetesStub,
    letters: Letters,
    tmp_path: Path,
    monkeypatch: Any,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """All users of the node can read a command line. The editor runs locally."""

    def run(*words: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as ended:
            main(["dlq", "edit", *words, "--topology", letters.name])
        return ended.value.code, capfd.readouterr().out

    long = json.dumps({"item": "é" * 100_000, "price": 7}, ensure_ascii=False)
    (tmp_path / "long").write_text(long)
    letters.write(letters.letter(7, value=OLD), letters.letter(8, value=OLD))
    assert run("0", "--value", NEW, "--dry-run") == (0, "item='cow', price=7\n")
    assert run("0", "--value", "no JSON", "--yes")[0] == 2
    assert run("0", "--value", NEW)[0] == 2, "nobody is there to be asked"
    assert letters.orders() == []
    assert run("0", "--file", str(tmp_path / "long"), "--yes")[0] == 0
    monkeypatch.setenv("EDITOR", editor(tmp_path, f'grep -q cow "$1" && echo \'{NEW}\' > "$1"'))
    assert run("1", "--yes", "--note", "two words")[0] == 0
    assert [order.value for _, order in letters.orders()] == [long.encode(), NEW.encode()]
    assert said(letters)[-1] == ("anna@laptop", "edit", "1", "two words", "1 replay requested")
    assert not [command for _, command in cluster.commands if "cow" in " ".join(command)]
