"""Events are assigned to the fault of their time, and the page shows whether the goals were met."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from kstorm.dev.pipeline_audit import AuditedTable
from tests.chaos.findings import ChaosFindings, Duplicate, LostMessage, RecordPlace
from tests.chaos.options import ChaosOptions, faults_of, parse
from tests.chaos.outcome import BETWEEN, ChaosOutcome, Episode, Row
from tests.chaos.page import renew_page, write_page
from tests.chaos.report import print_outcome, sum_up
from tests.chaos.tested_topology import SUBJECTS, WORD_COUNT


def options(*arguments: str) -> ChaosOptions:
    found = parse(["--seed", "5", *arguments])
    assert found is not None
    return found


def episode(fault: str, begin: int, end: int, progress: float = 4.0, replayed: int = 0) -> Episode:
    return Episode(fault, f"says {fault}", begin, end, progress, 2.0, replayed)


def outcome(findings: ChaosFindings, *episodes: Episode) -> ChaosOutcome:
    return ChaosOutcome(options(), findings, episodes, {"disk-full": "only root may"}, 0)


def row(found: ChaosOutcome, name: str) -> Row:
    return next(row for row in found.rows() if row.fault == name)


def test_event_belongs_to_the_fault_of_its_time() -> None:
    """A fault lasts from its start to its end, inclusively. Other events are between faults.

    A lost message belongs to the fault during which it was in flight.
    """
    findings = ChaosFindings(
        messages=[500, 1000, 1500, 2000, 2001, 3000],
        lost=[
            LostMessage(RecordPlace("in", 0, number), "m0", at, "join")
            for number, at in enumerate((900, 1500, 2500, 4001))
        ],
        duplicates=[
            Duplicate("m1", 2000, 900),
            Duplicate("m2", 2500, 900),
            Duplicate("m3", 3100, 3050),
        ],
    )
    found = outcome(
        findings, episode("kill-split", 1000, 2000), episode("sleep", 3000, 4000, replayed=7)
    )
    split, sleep, between = row(found, "kill-split"), row(found, "sleep"), row(found, BETWEEN)
    assert (split.runs, split.messages, split.lost, split.duplicated) == (1, 3, 2, 1)
    assert (sleep.runs, sleep.messages, sleep.lost, sleep.duplicated, sleep.replayed) == (
        1,
        1,
        1,
        1,
        7,
    )
    assert (between.messages, between.lost, between.duplicated) == (2, 1, 1)


def test_worst_message_counts_for_each_fault_that_it_waited_in() -> None:
    """A message that arrives before a fault and finishes after it counts for the fault.

    A message between two faults counts there.
    """
    findings = ChaosFindings(
        spans=[(100, 200), (900, 1000), (950, 3000), (1500, 1600), (2100, 2900), (3500, 9000)]
    )
    found = outcome(findings, episode("kill-split", 1000, 2000), episode("sleep", 3000, 4000))
    worst = {each.fault: each.worst for each in found.rows()}
    assert worst == {"kill-split": 2.05, "sleep": 5.5, BETWEEN: 0.8}
    assert row(outcome(ChaosFindings(), episode("sleep", 1, 2)), "sleep").worst is None


@pytest.mark.parametrize("starts", [0, 1])
def test_kafka_outage_must_not_restart_a_process(starts: int) -> None:
    found = outcome(ChaosFindings(), replace(episode("broker-outage", 1000, 2000), starts=starts))
    (goal,) = [goal for goal in found.goals() if "outage of Kafka" in goal.text]
    assert goal.met == (not starts)


def test_goals_for_kills() -> None:
    """The death of an acker replays nothing and takes ten seconds at most.

    The death of a bolt repeats no finished output.
    """
    good = outcome(
        ChaosFindings(duplicates=[Duplicate("m1", 20_500, 19_000)]),
        episode("kill-acker", 10_000, 15_000, progress=9.9),
        episode("kill-count", 20_000, 30_000),
    )
    assert all(met for _, met in good.goals())
    assert len(good.goals()) == 5
    bad = outcome(
        ChaosFindings(
            lost=[LostMessage(RecordPlace("in", 0, 0), "m0", 1500, "join")],
            duplicates=[Duplicate("m1", 20_500, 17_000)],
        ),
        episode("kill-acker", 10_000, 15_000, progress=10.1, replayed=1),
        episode("kill-count", 20_000, 30_000),
    )
    bad = replace(bad, audited=AuditedTable(3, {"gap": 1, "done": 2}, 1, None, ["gap: in[0] 7"]))
    assert not any(met for _, met in bad.goals())
    assert "the audit finds 1 faults: gap: in[0] 7" in bad.faults()
    assert len(outcome(ChaosFindings()).goals()) == 2


def test_duplicates_fail_an_exactly_once_run() -> None:
    """Counts above the truth do too. With at least once neither is a fault."""
    findings = ChaosFindings(outputs=9, duplicates=[Duplicate("m1", 20_500, 19_000)], over=3)
    exact = ChaosOutcome(options("--guarantee", "exactly-once"), findings, [], {}, 0)
    assert exact.faults() == ["duplicated: 1 of 9 outputs", "counts too high: by 3 in total"]
    assert [goal.met for goal in exact.goals()] == [True, True, False, False]
    assert outcome(findings).faults() == []
    assert len(outcome(findings).goals()) == 2
    clean = ChaosOutcome(
        options("--guarantee", "exactly-once"), ChaosFindings(outputs=9), [], {}, 0
    )
    assert [goal.met for goal in clean.goals()] == [True] * 4
    assert clean.faults() == []


def test_only_a_run_with_every_fault_writes_the_page_by_default() -> None:
    """Unavailable faults do not count. A requested file is always written."""
    episodes = [
        episode(fault.name, 1, 2)
        for fault in faults_of(SUBJECTS[WORD_COUNT])
        if fault.name != "disk-full"
    ]
    assert outcome(ChaosFindings(), *episodes).whole
    assert not outcome(ChaosFindings(), *episodes[1:]).whole
    assert ChaosOutcome(options("--report", "r.md"), ChaosFindings(), [], {}, 0).whole


def test_page_has_the_table_and_the_faults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has the seed, the command and the versions. The terminal shows the same."""
    findings = ChaosFindings(
        messages=[1500], lost=[LostMessage(RecordPlace("in", 3, 14), "m0", 1500, "join")]
    )
    found = outcome(findings, episode("kill-acker", 1000, 2000, progress=3.25, replayed=12))
    write_page(sum_up(found), tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert "| kill-acker | 1 | 1 | 1 | 0 | 12 | 3.2 | 2.0 | – |" in page
    assert "seed 5: `./run chaos --minutes 10 --seed 5`" in page
    assert "Kafka 4." in page
    assert "ZooKeeper 3." in page
    assert "**not met**: lost: 1 of 1 messages" in page
    assert (
        "1 messages are lost: LostMessage(place=RecordPlace(topic='in', partition=3, offset=14)"
        in page
    )
    assert "Left out: disk-full, as only root may." in page
    print_outcome(found, Console(width=120))
    said = capsys.readouterr().out
    assert "NOT MET  lost: 1 of 1 messages" in said
    assert "kill-acker" in said


def test_page_of_the_docs_has_the_last_run_of_each_guarantee(tmp_path: Path) -> None:
    """The runs are side by side. A new run replaces only the one with its guarantee."""
    page = tmp_path / "reliability.md"
    findings = ChaosFindings(messages=[1500], outputs=9, duplicates=[Duplicate("m1", 1600, 900)])
    renew_page(sum_up(outcome(findings, episode("sleep", 1000, 2000))), page)
    assert "Side by side" not in page.read_text()
    exact = ChaosOutcome(
        options("--guarantee", "exactly-once"), ChaosFindings(), [episode("sleep", 1, 2)], {}, 0
    )
    renew_page(sum_up(exact), page)
    both = page.read_text()
    assert "| sleep | 0 | 0 | 1 | 0 | 2.0 | 2.0 |" in both
    assert "## At least once" in both
    assert "met: duplicated: 0 of 0 outputs" in both
    renew_page(sum_up(outcome(ChaosFindings(), episode("sleep", 1, 2))), page)
    assert "| sleep | 0 | 0 | 0 | 0 | 2.0 | 2.0 |" in page.read_text()


def test_page_of_the_docs_has_a_section_for_streams(tmp_path: Path) -> None:
    """It has the late tuples. The comparison table covers only the word count."""
    page = tmp_path / "reliability.md"
    for arguments in ([], ["--guarantee", "exactly-once"], ["--topology", "all"]):
        made = ChaosOutcome(
            options(*arguments), ChaosFindings(late=3), [episode("sleep", 1, 2)], {}, 0
        )
        renew_page(sum_up(made), page)
    said = page.read_text()
    assert "| fault | lost, at least once | lost, exactly once | duplicated" in said
    assert "## Streams, exactly once" in said
    assert said.count("Late tuples, each reported once and counted in no window: 3.") == 1
    assert {kept.name for kept in (tmp_path / "reliability").iterdir()} == {
        "at_least_once.json",
        "exactly_once.json",
        "streams.json",
    }
