"""The order of the faults depends only on the seed. The command line selects the faults."""

from itertools import islice
from pathlib import Path

import pytest

from kstorm.errors import ConfigError
from tests.chaos.faults import draw
from tests.chaos.options import FAULTS, ChaosOptions, faults_of, parse
from tests.chaos.tested_topology import SUBJECTS, WORD_COUNT
from tests.chaos.topology import GUARANTEE_VARIABLE, topology


def drawn(seed: int, count: int) -> list[tuple[str, float]]:
    """Return the first faults, each with its first random number."""
    return [(fault.name, rng.random()) for fault, rng in islice(draw(FAULTS, seed), count)]


def asked(*arguments: str) -> ChaosOptions:
    """Return the options of a command line."""
    options = parse(list(arguments))
    assert options is not None
    return options


def test_seed_determines_order_and_victims() -> None:
    """Another seed gives another order."""
    count = 3 * len(FAULTS)
    assert drawn(7, count) == drawn(7, count)
    assert drawn(7, count) != drawn(8, count)
    assert [chance for _, chance in drawn(7, count)] != [chance for _, chance in drawn(8, count)]


def test_every_fault_occurs_once_per_round() -> None:
    """The next round has another order."""
    count = len(FAULTS)
    names = [name for name, _ in drawn(7, 2 * count)]
    assert sorted(names[:count]) == sorted(names[count:]) == sorted(fault.name for fault in FAULTS)
    assert names[:count] != names[count:]


def test_random_numbers_of_one_fault_do_not_change_the_next() -> None:
    """Each fault has its own generator, so timing does not matter."""
    greedy = []
    for fault, rng in islice(draw(FAULTS, 7), 5):
        greedy.append((fault.name, rng.random()))
        rng.random()
    assert greedy == drawn(7, 5)


def test_short_run_kills_each_role_once_and_writes_no_page() -> None:
    """A full run draws from all faults and writes the page of the docs."""
    short, full = asked("--short"), asked()
    assert [fault.name for fault in short.faults] == [
        f"kill-{role}" for role in SUBJECTS[WORD_COUNT].roles
    ]
    assert short.report is None
    assert list(full.faults) == faults_of(SUBJECTS[WORD_COUNT])
    assert full.report is not None
    assert full.report.parts[-2:] == ("concepts", "reliability.md")
    assert asked("--faults", "sleep").report is None
    assert asked("--short", "--report", "a.md").report == Path("a.md")


def test_half_an_hour_has_200000_messages() -> None:
    """Fewer minutes keep the rate. A given number is spread over the minutes."""
    assert asked("--minutes", "30").messages >= 200_000
    assert asked("--minutes", "3").messages == pytest.approx(20_000, abs=1)
    assert asked("--minutes", "2", "--messages", "1,200").rate == 10


def test_command_of_a_run_reproduces_it() -> None:
    """It names a drawn seed too."""
    options = asked("--minutes", "3", "--faults", "sleep,scale")
    assert options.command == f"./run chaos --minutes 3 --seed {options.seed} --faults sleep,scale"
    again = asked(*options.command.split()[2:])
    assert again == options
    three = asked("--brokers", "3", "--seed", "7")
    assert three.command == "./run chaos --minutes 10 --seed 7 --brokers 3"
    assert three.report is None, "the page is about one broker"


def test_exactly_once_draws_from_all_faults() -> None:
    """Its command reproduces the run."""
    options = asked("--guarantee", "exactly-once", "--seed", "7")
    assert options.guarantee == "exactly_once"
    assert list(options.faults) == faults_of(SUBJECTS[WORD_COUNT])
    assert asked(*options.command.split()[2:]) == options
    assert not asked("--guarantee", "at-least-once").exactly_once


def test_processes_get_the_guarantee_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default is at least once."""
    monkeypatch.delenv(GUARANTEE_VARIABLE, raising=False)
    assert not topology().config.exactly_once
    monkeypatch.setenv(GUARANTEE_VARIABLE, "exactly_once")
    assert topology().config.exactly_once


@pytest.mark.parametrize("name", ["trident", "window", "join", "all"])
def test_faults_of_each_topology_exist(name: str) -> None:
    """The named roles, processes and bolts exist. A short run kills each role once.

    The topologies run with exactly once.
    """
    options = asked("--topology", name, "--seed", "7")
    assert options.exactly_once
    assert options.command == f"./run chaos --minutes 10 --seed 7 --topology {name}"
    assert (options.report is not None) == (name == "all")
    subject = options.subject
    with pytest.MonkeyPatch.context() as patched:
        for variable, value in subject.environment.items():
            patched.setenv(variable, value)
        built = subject.topology()
    processes = {
        f"{spec.id}-{number}"
        for spec in built.components.values()
        for number in range(spec.parallelism)
    }
    assert {*subject.behind_proxy} <= processes | {"acker-0"}
    assert subject.small_disk in processes
    assert {*subject.framed} == {spec.id for spec in built.bolts}
    assert {*subject.scaled} <= {spec.id for spec in built.bolts}
    assert {each for some in subject.roles.values() for each in some} == {
        *built.components,
        "__acker",
    }
    assert {*subject.stateful} <= {*subject.roles}
    short = asked("--topology", name, "--short")
    assert {fault.name for fault in short.faults} == {f"kill-{role}" for role in subject.roles}
    assert ("poison-large" in [fault.name for fault in options.faults]) == (
        name in ("trident", "all")
    )


def test_streams_require_exactly_once() -> None:
    assert asked("--topology", "join", "--guarantee", "exactly-once").exactly_once
    with pytest.raises(ConfigError, match="'join' is processed exactly once"):
        asked("--topology", "join", "--guarantee", "at-least-once")
    with pytest.raises(ConfigError, match="no fault 'kill-window' for this topology"):
        asked("--faults", "kill-window")


def test_unknown_fault_is_named() -> None:
    """The error explains how to list the faults."""
    with pytest.raises(ConfigError, match=r"no fault 'sleeep'.*--list"):
        parse(["--faults", "kill-spout,sleeep"])
