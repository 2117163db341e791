"""Every command finds a topology in the same place: a run on this machine, the servers of the environment, Kubernetes."""

import json
import socket
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
import pytest
import typer.main

from examples.diamond import build
from kstorm.cli.__main__ import app
from kstorm.errors import ConfigError, ControlError
from kstorm.operations.places import (
    BOOTSTRAP,
    ZOOKEEPER,
    LocalRun,
    NamedServers,
    OnKubernetes,
    PlaceChoice,
    find_place,
)
from kstorm.operations.state.state_client import StateClient
from kstorm.runtime import run_files
from tests.kstorm_command import Command

WITHOUT_A_TOPOLOGY = {
    "values", "flux-schema", "migrate flux", "migrate compare", "prepare", "produce", "consume", "ui", "forget", "note",
    "topology list", "status",
}  # fmt: skip
"""Commands that need no running topology. `status` and `topology list` show what there is."""
ROOT = Path(__file__).parents[3]
MORE = {
    "why": ["--oldest"],
    "trace": ["a/0/1"],
    "offsets reset": ["--to", "latest"],
    "offsets set": ["0=1"],
    "export-traces": ["--otlp", "http://localhost:1"],
    "scale": ["split=1"],
    "kill": ["--yes"],
    "dlq discard": ["1", "--yes"],
    "dlq replay": ["1", "--yes"],
    "dlq edit": ["1", "--value", "x", "--yes"],
    "dlq show": ["1"],
    "state get": ["sink", "key"],
    "state scan": ["sink"],
    "lag": ["sink"],
    "causes": ["--window", "0.1"],
    "migrate offsets": ["--group", "storm"],
}
ON_KUBERNETES = {"scale", "restart", "kill"}


def commands() -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        if isinstance(command, click.Group) or hasattr(command, "commands"):
            found |= {f"{name} {verb}": each for verb, each in command.commands.items()}
        else:
            found[name] = command
    return found


VERBS = sorted(set(commands()) - WITHOUT_A_TOPOLOGY)


def words(verb: str, topology: str) -> list[str]:
    """Return a complete command line. The topology is an option or an argument."""
    options = {option for each in commands()[verb].params for option in each.opts}
    name = ["--topology", topology] if "--topology" in options else [topology]
    return [*verb.split(), *name, *MORE.get(verb, [])]


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Provide an environment without servers and clusters."""
    for name in (BOOTSTRAP, ZOOKEEPER, "KSTORM_TOPOLOGY", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def closed() -> Iterator[str]:
    """Provide the address of a port that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def run_here(home: Path, folder: str, servers: str = "127.0.0.1:1", name: str = "words") -> Path:
    code = run_files.RunCode("examples.diamond:topology", str(ROOT))
    worker = run_files.RunningWorker("sink-0", "sink", "http://127.0.0.1:1", "")
    run_files.write(
        home / "runs" / folder,
        run_files.describe(build(name, "in", "out"), servers, servers, [worker], code),
    )
    return home / "runs" / folder


@pytest.mark.parametrize("verb", sorted(set(commands()) - {"ui", "note", "forget", "lag"}))
def test_every_command_prints_json(verb: str) -> None:
    """The exceptions are the web UI, and commands that only other programs start."""
    assert any("--json" in each.opts for each in commands()[verb].params)


@pytest.mark.parametrize("option", ["-t", "--runs", "--bootstrap", "--zookeeper", "-n"])
def test_an_option_has_one_spelling(option: str) -> None:
    """The short and long forms are the same everywhere. Each short form has a long one."""
    found = {
        (tuple(each.opts), each.metavar)
        for command in commands().values()
        for each in command.params
        if option in each.opts
    }
    assert len(found) == 1
    assert any(name.startswith("--") for name in next(iter(found))[0])


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_looks_for_the_topology(verb: str, kstorm: Command, no_runs: Path) -> None:
    """Nothing runs, so each command reports that. A new command that looks elsewhere fails here."""
    code, told, error = kstorm(*words(verb, "nowhere"))
    assert (code, told, error.count("\n")) == (2, "", 1)
    assert error.startswith(
        f"kstorm: no topology 'nowhere' runs from {no_runs / 'runs'} (running there: none)"
    )
    assert "and there is no kubeconfig" in error


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"topology describe", "topology status"}))
def test_every_command_uses_a_run_on_this_machine(
    verb: str, kstorm: Command, no_runs: Path, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It precedes the environment's servers and a cluster.

    The answer comes within 3 s.
    """
    folder = run_here(no_runs, "a", closed)
    for variable in (BOOTSTRAP, ZOOKEEPER):
        monkeypatch.setenv(variable, "elsewhere.invalid:1")
    monkeypatch.setattr("kstorm.cli.state.StateClient", partial(StateClient, patience=0.1))
    (no_runs / "kubeconfig").touch()
    monkeypatch.setenv("KUBECONFIG", str(no_runs / "kubeconfig"))
    begun = time.monotonic()
    _, told, error = kstorm(*words(verb, "words"))
    seconds = time.monotonic() - begun
    assert "elsewhere.invalid" not in told + error
    if verb in ON_KUBERNETES:
        assert f"is for topologies on Kubernetes, but 'words' is the run in {folder}" in error
    elif verb not in ("causes", "logs", "state get", "state scan"):
        assert closed in error
    assert seconds < 3


def test_order_of_places(no_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs = (BOOTSTRAP,)
    named = {BOOTSTRAP: "kafka:1"}
    folder = run_here(no_runs, "a")
    (no_runs / "kubeconfig").touch()
    monkeypatch.setenv("KUBECONFIG", str(no_runs / "kubeconfig"))
    found = find_place("words", PlaceChoice(), needs, named)
    assert isinstance(found, LocalRun)
    assert found.folder == folder
    assert find_place("other", PlaceChoice(), needs, named) == NamedServers()
    assert find_place("other", PlaceChoice(), needs, {}) == OnKubernetes()
    assert find_place("other", PlaceChoice(), (), named) == OnKubernetes()


def test_options_decide_first(no_runs: Path) -> None:
    needs = (BOOTSTRAP,)
    run_here(no_runs, "a")
    chosen = PlaceChoice(bootstrap="kafka:1")
    assert find_place("words", chosen, needs, {}) == NamedServers("kafka:1")
    assert find_place("words", PlaceChoice(namespace="n"), needs, {}) == OnKubernetes("n")
    with pytest.raises(ConfigError, match="give one or the other"):
        find_place("words", PlaceChoice(no_runs, "kafka:1"), needs, {})
    with pytest.raises(ControlError, match="give the folder of its run"):
        find_place("words", PlaceChoice(no_runs / "nothing"), needs, {BOOTSTRAP: "kafka:1"})


def test_two_runs_of_one_name_are_listed(no_runs: Path, kstorm: Command) -> None:
    first, second = run_here(no_runs, "a"), run_here(no_runs, "b")
    code, _, error = kstorm("events", "--topology", "words")
    assert code == 2
    assert "2 runs of 'words' are on this machine" in error
    assert f"the run in {first} (" in error
    assert f"the run in {second} (" in error
    assert f"--runs {first}" in error
    assert "2 runs of" not in kstorm("events", "--topology", "words", "--runs", str(second))[2]


def test_code_is_found_in_the_place_of_its_name(
    no_runs: Path, kstorm: Command, closed: str
) -> None:
    run_here(no_runs, "a", closed, name="diamond")
    for words in (
        ["drain", "examples.diamond:topology"],
        ["events", "-t", "examples.diamond:topology"],
    ):
        assert closed in kstorm(*words)[2]


def test_other_servers_of_the_environment_are_noted(
    no_runs: Path, kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_here(no_runs, "a")
    monkeypatch.setenv(BOOTSTRAP, "kafka:9092")
    assert f"has its own servers, so {BOOTSTRAP} is not used" in kstorm("events", "-t", "words")[2]


def test_unknown_host_is_reported_within_3_s(kstorm: Command) -> None:
    begun = time.monotonic()
    code, _, error = kstorm("dlq", "list", "-t", "words", "--bootstrap", "nowhere.invalid:9092")
    assert (code, error.count("\n")) == (2, 1)
    assert "no Kafka broker answered at 'nowhere.invalid:9092' (nowhere.invalid: " in error
    assert time.monotonic() - begun < 3


def test_status_lists_what_runs(no_runs: Path, kstorm: Command) -> None:
    """`status` without a name lists the condition of each one."""
    assert kstorm("status")[:2] == (
        0,
        (
            f"no topology runs from {no_runs / 'runs'}, and there is no kubeconfig "
            f"({Path('~/.kube/config').expanduser()}); `kstorm dev` starts one\n"
        ),
    )
    folder = run_here(no_runs, "a")
    code, told, _ = kstorm("status", "--json")
    (found,) = json.loads(told)
    assert code == 1
    assert (found["topology"], found["place"], found["processes"]) == ("words", str(folder), 1)
    refused = "Kafka does not answer (127.0.0.1:1: Connection refused)"
    assert found["problems"] == ["sink-0: does not answer", refused]
    assert "words: sink-0: does not answer" in kstorm("status")[1]
    assert "sink-0: does not answer" in kstorm("status", "words", "--window", "0")[1]


def test_runs_are_listed_and_described(no_runs: Path, kstorm: Command) -> None:
    folder = run_here(no_runs, "a", "127.0.0.1:7")
    (row,) = json.loads(kstorm("topology", "list", "--json")[1])
    assert (row["topology"], row["place"], row["pods"]) == ("words", str(folder), 1)
    told = kstorm("topology", "describe", "words")[1]
    assert "Kafka 127.0.0.1:7, ZooKeeper 127.0.0.1:7" in told
    assert "http://127.0.0.1:1" in told
