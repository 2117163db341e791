"""The demo's verdict and its report."""

import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from kstorm.dev.command_exit import check_report
from kstorm.dev.demo.audit import Produced, SinkRecord, audit
from kstorm.dev.demo.pipeline_run import DemoTables, GoldWord, read_tables
from kstorm.dev.demo.report import DemoOutcome, LoadResult, Usage, print_summary
from kstorm.dev.pipeline_audit import AuditedTable
from kstorm.errors import ConfigError
from kstorm.topology.config import AT_LEAST_ONCE, EXACTLY_ONCE

KEYS = {
    *(
        "messages",
        "acked",
        "failed",
        "replayed",
        "lost",
        "words_checked",
        "words_wrong",
        "words_over",
    ),
    *("sentences_per_s", "p50_ms", "p99_ms", "killed", "gold_rows", "cpu_seconds"),
}
TOOK = {"packages": 23.41, "servers": 4.0, "tables": 20.01}
AUDITED = AuditedTable(2, {"done": 2}, 0, 2, [])


def outcome(
    counts: dict[str, int],
    gold: dict[str, int],
    emitted: int = 2,
    guarantee: str = EXACTLY_ONCE,
    repeated: Sequence[str] = (),
) -> DemoOutcome:
    """Return a run over "a b" and "a" with these highest counts in the sink and occurrences in
    gold.

    `repeated` has the ids of records of "a" that the sink has twice.
    """
    produced = [Produced("a b", 0, 0, 0), Produced("a", 1, 0, 0)]
    places = {"a": ["lines-0-0-0", "lines-1-0-0"], "b": ["lines-0-0-1"]}
    records = [
        SinkRecord(json.dumps({"word": word, "count": count, "id": place}).encode(), 5)
        for word, count in counts.items()
        for place in places[word]
    ]
    records += [
        SinkRecord(json.dumps({"word": "a", "count": 1, "id": place}).encode(), 5)
        for place in repeated
    ]
    words = [GoldWord(word, max(count, 3), count) for word, count in gold.items()]
    rows = {"bronze": 3, "silver": 3, "quarantine": 0, "gold": len(gold)}
    load = LoadResult(2, 2, 0, emitted, 2.0, 1.0, [0, 4], [])
    tables = DemoTables(Path("/tables"), rows, words, 1.0)
    usage = {"acker-0": Usage(1.25, 2**20)}
    return DemoOutcome(
        guarantee, load, audit(produced, records), tables, AUDITED, usage, Path("/logs"), TOOK
    )


def test_good_run_has_no_faults_and_a_complete_report() -> None:
    """The report has all keys. Nothing is lost or wrong."""
    good = outcome({"a": 2, "b": 1}, {"a": 2, "b": 1})
    report = good.to_json()
    assert good.faults() == []
    assert set(report) >= KEYS
    assert (report["lost"], report["words_wrong"], report["words_over"], report["replayed"]) == (
        0,
        0,
        0,
        0,
    )
    assert (report["words_checked"], report["gold_rows"], report["sentences_per_s"]) == (2, 2, 1.0)
    assert report["cpu_seconds"] == {"acker-0": 1.2}
    assert report["took"] == {"packages": 23.4, "servers": 4.0, "tables": 20.0}
    assert report["took_in_all"] == 47.4
    json.dumps(report)


def test_replay_is_allowed_with_at_least_once() -> None:
    """Counts may be too high, and the report has the difference."""
    replayed = outcome(
        {"a": 3, "b": 1}, {"a": 2, "b": 1}, 3, AT_LEAST_ONCE, repeated=["lines-1-0-0"]
    )
    report = replayed.to_json()
    assert replayed.faults() == []
    assert (report["replayed"], report["words_over"], report["words_over_by"]) == (1, 1, {"a": 1})


def test_replay_is_a_fault_with_exactly_once() -> None:
    """No count and no record may occur twice."""
    replayed = outcome({"a": 3, "b": 1}, {"a": 2, "b": 1}, 3, repeated=["lines-1-0-0"])
    assert replayed.faults() == [
        "1 words are counted more often than they occur: 'a' by 1",
        "1 records are twice in the sink topic",
    ]


@pytest.mark.parametrize(
    ("counts", "gold", "says"),
    [
        ({"a": 2}, {"a": 2, "b": 1}, "1 messages lack words in the sink topic, such as 0-0"),
        (
            {"a": 1, "b": 1},
            {"a": 2, "b": 1},
            "1 words are counted short in the sink topic: 'a' 1 of 2",
        ),
        (
            {"a": 2, "b": 1},
            {"a": 3, "b": 1},
            "1 words are wrong in the gold table: 'a' 3 instead of 2",
        ),
        ({"a": 2, "b": 1}, {"a": 2}, "1 words are wrong in the gold table: 'b' 0 instead of 1"),
        (
            {"a": 2, "b": 1},
            {"a": 2, "b": 1, "c": 1},
            "1 words are wrong in the gold table: 'c' 1 instead of 0",
        ),
    ],
)
def test_lost_and_wrong_words_are_faults(
    counts: dict[str, int], gold: dict[str, int], says: str
) -> None:
    """Each kind of fault has its sentence, and counts in the report."""
    bad = outcome(counts, gold)
    assert says in bad.faults()
    assert bad.to_json()["lost"] + bad.to_json()["words_wrong"] > 0


def test_low_count_in_the_gold_table_is_wrong() -> None:
    """Occurrences are exact, and the topology's count is at least once. Both are checked."""
    tables = DemoTables(Path("/tables"), {}, [GoldWord("a", 1, 2)], 1.0)
    assert tables.wrong({"a": 2}) == {"a": 1}


def test_summary_does_not_interpret_markup() -> None:
    """A word may look like markup."""
    shown = io.StringIO()
    good = outcome({"a": 2, "b": 1}, {"a": 2, "b": 1})
    odd = DemoTables(Path("/tables"), good.tables.rows, [GoldWord("[red]", 9, 9)], 1.0)
    print_summary(
        DemoOutcome(
            good.guarantee, good.load, good.findings, odd, AUDITED, good.usage, good.directory, TOOK
        ),
        Console(file=shown, width=100),
    )
    assert "[red]" in shown.getvalue()
    assert "acker-0" in shown.getvalue()
    assert "packages 23 s · servers 4 s · tables 20 s = 47 s" in shown.getvalue()


def test_top_words_are_the_ten_most_frequent() -> None:
    """The order is by occurrences, then by name."""
    words = [GoldWord(name, 1, 5 if name in "xy" else 1) for name in "yxabcdefghijk"]
    tables = DemoTables(Path("/tables"), {}, words, 1.0)
    assert [row.word for row in tables.top] == list("xyabcdefgh")


def test_tables_are_read_from_the_files_of_the_pipeline(tmp_path: Path) -> None:
    """Rows come from its report, words from its export."""
    rows = {"bronze": 4, "silver": 3, "quarantine": 1, "word_counts": 1, "counts_per_minute": 1}
    (tmp_path / "tables.json").write_text(json.dumps({"rows": rows}))
    (tmp_path / "gold.jsonl").write_text(
        '{"word": "a", "count": 4, "occurrences": 3, "position": {"offset": 7}}\n'
    )
    tables = read_tables(tmp_path, 2.0)
    assert tables.rows == {"bronze": 4, "silver": 3, "quarantine": 1, "gold": 1}
    assert tables.words == [GoldWord("a", 4, 3)]


def test_unwritable_report_is_rejected_before_the_run(tmp_path: Path) -> None:
    """Otherwise two minutes would be wasted."""
    check_report(tmp_path / "r.json")
    for wrong in (tmp_path, tmp_path / "nowhere" / "r.json"):
        with pytest.raises(ConfigError, match="give a file in a folder that exists"):
            check_report(wrong)
