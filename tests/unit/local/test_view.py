"""How a running topology is shown."""

import io

from rich.console import Console

from kstorm.local.view import LiveView, plain_line
from kstorm.local.watch import ComponentState, Snapshot
from kstorm.runtime.service.figures import Figures, format_age, format_seconds


def snapshot() -> Snapshot:
    """A topology at work, with a process down."""
    spout = Figures(emitted=130, acked=100, failed=2, pending=28)
    lately = Figures(acked=50, latency_counts=(0, 10))
    return Snapshot(
        [
            ComponentState("sentences", "spout", 1, 1, spout, lately, 5.0, "", None),
            ComponentState(
                "count",
                "bolt",
                2,
                1,
                Figures(executed=1234),
                Figures(),
                5.0,
                "KeyError: 'x'",
                180.0,
            ),
            ComponentState("__acker", "acker", 1, 1, Figures(pending=28), Figures(), 5.0, "", None),
        ],
        ["count-1"],
    )


def test_a_line_says_what_matters() -> None:
    """Without a terminal, one line has progress, rate, open trees, errors and what is down."""
    line = plain_line(snapshot(), 1000)
    for part in ("acked 100 of 1,000", "10/s", "in flight 28", "failed 2", "count executed 1,234"):
        assert part in line
    assert "open trees 28" in line
    assert "not ready: count-1" in line
    assert "count: KeyError: 'x' (3 min ago)" in line


def test_without_a_terminal_lines_do_not_come_with_every_look() -> None:
    """Looks that follow each other closely print one line."""
    out = io.StringIO()
    with LiveView(Console(file=out, width=200), 1000) as view:
        for _ in range(5):
            view.show(snapshot())
    assert out.getvalue().count("acked 100") == 1


def test_on_a_terminal_there_is_a_table() -> None:
    """A terminal shows every component with its counts, and the notes."""
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


def test_seconds_are_shown_in_the_unit_that_suits() -> None:
    """Below a second in milliseconds."""
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
