"""The order of the benchmark's runs, ratios, and the choice of contestants."""

import pytest

from kstorm.errors import ConfigError
from tests.bench.contest import Run
from tests.bench.contestants import CONTESTANTS, choose
from tests.bench.output import Verdict
from tests.bench.rounds import schedule, with_ratios


def run_of(contestant: str, **figures: float | None) -> Run:
    """A correct run with these figures."""
    return Run(contestant, 10, figures, True, Verdict(0, 0, 0), [1.0])


def names(only: str | None, rounds: int) -> str:
    return " ".join(contestant.name for contestant in schedule(choose(only), rounds))


def test_the_base_runs_before_and_after_each() -> None:
    """Once between two others, which share it."""
    everybody = "loop kstorm loop kstorm-untracked loop kstorm-state loop kstorm-exactly-once loop faust loop"
    assert names(None, 1) == everybody
    assert names("loop,kstorm", 2) == "loop kstorm loop kstorm loop"


def test_without_the_loop_ratios_are_to_what_is_wired_by_hand() -> None:
    """Trident and the same by hand take turns, and neither runs without being asked for."""
    assert names("trident,by-hand", 2) == "by-hand trident by-hand trident by-hand"
    assert "trident" not in names(None, 1)
    runs = [run_of("by-hand", cpu=2), run_of("trident", cpu=3), run_of("by-hand", cpu=4)]
    assert [run.ratios for run in with_ratios(runs)] == [{}, {"cpu": 1.0}, {}]


def test_without_base_or_others_each_just_runs() -> None:
    """There is nothing to compare with."""
    assert names("kstorm,faust", 2) == "kstorm faust kstorm faust"
    assert names("loop", 2) == "loop loop"


def test_a_ratio_is_to_the_mean_of_the_base_before_and_after() -> None:
    """For what both have; the base itself has none."""
    runs = [
        run_of("loop", rate=10, p50=None),
        run_of("faust", rate=5, p50=3, rss=7),
        run_of("loop", rate=30, p50=1),
    ]
    before, faust, after = with_ratios(runs)
    assert faust.ratios == {"rate": 0.25}
    assert not before.ratios
    assert not after.ratios


def test_without_the_base_on_both_sides_there_is_no_ratio() -> None:
    """The first and the last run, and neighbours of others."""
    runs = with_ratios([run_of("kstorm", rate=1), run_of("faust", rate=1), run_of("loop", rate=1)])
    assert not any(run.ratios for run in runs)


def test_contestants_keep_their_order_and_an_unknown_one_is_named() -> None:
    """However they are asked for."""
    assert [contestant.name for contestant in choose("faust, loop")] == ["loop", "faust"]
    assert choose(None) == CONTESTANTS[:6]
    with pytest.raises(ConfigError, match="no contestant 'storm', only loop, kstorm"):
        choose("loop,storm")


def test_a_slow_contestant_gets_fewer_sentences() -> None:
    """But not too few to measure, and never more than were asked for."""
    loop, faust = choose("loop,faust")
    assert loop.sentences(100_000) == 100_000
    assert [faust.sentences(asked) for asked in (100_000, 10_000, 300)] == [2000, 1000, 300]
