"""The order of the benchmark's runs, their ratios, and the choice of contestants."""

import pytest

from kstorm.errors import ConfigError
from tests.bench.contest import BenchRun
from tests.bench.contestants import CONTESTANTS, choose
from tests.bench.output import Verdict
from tests.bench.rounds import schedule, with_ratios


def run_of(contestant: str, **figures: float | None) -> BenchRun:
    """Return a correct run with these results."""
    return BenchRun(contestant, 10, figures, True, Verdict(0, 0, 0), [1.0])


def names(only: str | None, rounds: int) -> str:
    return " ".join(contestant.name for contestant in schedule(choose(only), rounds))


def test_base_runs_before_and_after_each_contestant() -> None:
    """Two adjacent contestants share one base run."""
    everybody = "loop kstorm loop kstorm-untracked loop kstorm-state loop kstorm-exactly-once loop faust loop"
    assert names(None, 1) == everybody
    assert names("loop,kstorm", 2) == "loop kstorm loop kstorm loop"


def test_without_the_loop_the_hand_wired_topology_is_the_base() -> None:
    """Trident and the hand-wired topology take turns. Both run only on request."""
    assert names("trident,by-hand", 2) == "by-hand trident by-hand trident by-hand"
    assert "trident" not in names(None, 1)
    runs = [run_of("by-hand", cpu=2), run_of("trident", cpu=3), run_of("by-hand", cpu=4)]
    assert [run.ratios for run in with_ratios(runs)] == [{}, {"cpu": 1.0}, {}]


def test_without_a_base_contestants_run_in_turn() -> None:
    """There is nothing to compare them with."""
    assert names("kstorm,faust", 2) == "kstorm faust kstorm faust"
    assert names("loop", 2) == "loop loop"


def test_ratio_is_to_the_mean_of_both_base_runs() -> None:
    """It needs a result of each. The base itself has no ratio."""
    runs = [
        run_of("loop", rate=10, p50=None),
        run_of("faust", rate=5, p50=3, rss=7),
        run_of("loop", rate=30, p50=1),
    ]
    before, faust, after = with_ratios(runs)
    assert faust.ratios == {"rate": 0.25}
    assert not before.ratios
    assert not after.ratios


def test_ratio_needs_a_base_run_on_both_sides() -> None:
    """The first and the last run have none, and neither have neighbours of other contestants."""
    runs = with_ratios([run_of("kstorm", rate=1), run_of("faust", rate=1), run_of("loop", rate=1)])
    assert not any(run.ratios for run in runs)


def test_contestants_keep_their_order() -> None:
    """The order of the request does not matter. An unknown contestant is an error."""
    assert [contestant.name for contestant in choose("faust, loop")] == ["loop", "faust"]
    assert choose(None) == CONTESTANTS[:6]
    with pytest.raises(ConfigError, match="no contestant 'flink', only loop, kstorm"):
        choose("loop,flink")


def test_slow_contestant_gets_fewer_sentences() -> None:
    """It gets enough for a measurement, and never more than requested."""
    loop, faust = choose("loop,faust")
    assert loop.sentences(100_000) == 100_000
    assert [faust.sentences(asked) for asked in (100_000, 10_000, 300)] == [2000, 1000, 300]
