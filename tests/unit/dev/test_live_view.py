"""The display of a running topology."""

import io

from rich.console import Console

from kstorm.dev.live_view import LiveView, plain_line
from kstorm.dev.progress_watch import ComponentProgress, ProgressSnapshot
from kstorm.runtime.service.status_counters import StatusCounters, format_age, format_seconds


def snapshot() -> ProgressSnapshot:
    """Return a working topology with one process down."""
    spout = StatusCounters(emitted=130, acked=100, failed=2, pending=28)
    lately = StatusCounters(acked=50, latency_counts=(0, 10))
    return ProgressSnapshot(
        [
            ComponentProgress("sentences", "spout", 1, 1, spout, lately, 5.0, "", None),
            ComponentProgress(
                "count",
                "bolt",
                2,
                1,
                StatusCounters(executed=1234),
                StatusCounters(),
                5.0,
                "KeyError: 'x'",
                180.0,
            ),
            ComponentProgress(
                "__acker",
                "acker",
                1,
                1,
                StatusCounters(pending=28),
                StatusCounters(),
                5.0,
                "",
                None,
            ),
        ],
        ["count-1"],
    )


def test_line_has_progress_errors_and_missing_processes() -> None:
    """Without a terminal there is one line. It has the rate and the open trees too."""
    line = plain_line(snapshot(), 1000)
    for part in ("acked 100 of 1,000", "10/s", "in flight 28", "failed 2", "count executed 1,234"):
        assert part in line
    assert "open trees 28" in line
    assert "not ready: count-1" in line
    assert "count: KeyError: 'x' (3 min ago)" in line


def test_lines_are_limited_without_a_terminal() -> None:
    """Snapshots in quick succession print one line."""
    out = io.StringIO()
    with LiveView(Console(file=out, width=200), 1000) as view:
        for _ in range(5):
            view.show(snapshot())
    assert out.getvalue().count("acked 100") == 1


def test_terminal_shows_a_table() -> None:
    """It has every component with its counts, and the notes."""
    out = io.StringIO()
    with LiveView(
        Console(file=out, width=200, force_terminal=True, _environ={"TERM": "xterm"}), 1000
    ) as view:
        view.show(snapshot(), ["killed, and coming back: count-1"])
    shown = out.getvalue()
    for part in (
        "component",
        "sentences",
        "__acker",
        "1/2",
        "1,234",
        "killed, and coming back: count-1",
    ):
        assert part in shown
    assert "count: KeyError: 'x' (3 min ago)" in shown


def test_durations_have_a_suitable_unit() -> None:
    assert [format_seconds(seconds) for seconds in (0.0123, 0.9, 1.24)] == [
        "12 ms",
        "900 ms",
        "1.2 s",
    ]
    assert [format_age(seconds) for seconds in (0.6, 59.4, 179, 7200, 1e6)] == [
        "1 s",
        "59 s",
        "2 min",
        "2 h",
        "11 d",
    ]
