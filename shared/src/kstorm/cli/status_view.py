"""The status of a topology's components as a table."""

import time
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kstorm.operations.kubernetes.component_status import ComponentStatus
from kstorm.operations.status.bottlenecks import SAID_BY_PROCESSES, Bottleneck, describe
from kstorm.operations.status.troubles import grouped
from kstorm.printable import printable
from kstorm.runtime.service.status_counters import format_error, format_seconds


def status_view(components: Sequence[ComponentStatus], more: Sequence[str] = ()) -> RenderableType:
    """Format the status in 80 columns, with problems below the table.

    `more` are problems that no process reports.
    """
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("component", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    for name in ("pods", "tasks", "acked", "failed", "pending", "p50", "p99"):
        table.add_column(name, justify="right", no_wrap=True)
    for found in components:
        table.add_row(
            found.component,
            found.kind,
            f"{found.pods_ready}/{found.pods}",
            f"{found.tasks_assigned}/{'–' if found.tasks is None else found.tasks}",
            f"{found.acked:,}",
            Text(f"{found.failed:,}", style="red" if found.failed else ""),
            f"{found.pending:,}",
            *(
                "–" if each is None else format_seconds(each)
                for each in (found.latency_p50, found.latency_p99)
            ),
        )
    total = sum(found.pods for found in components)
    remarks = (remark for found in components for remark in found.remarks.items())
    not_ready = (reason for found in components for reason in found.not_ready.items())
    notes = [_note(each.headline, "yellow") for each in grouped(remarks, total)]
    notes += [_note(each.headline, "red") for each in grouped(not_ready, total)]
    notes += [
        _note(f"{found.component}: {format_error(found.last_error, found.last_error_age)}", "red")
        for found in components
        if found.last_error
    ]
    return Group(table, *notes, *(_note(problem, "red") for problem in more))


def causes_view(causes: Iterable[Bottleneck]) -> RenderableType:
    """Format the causes that `status_view` does not contain."""
    now = time.time()
    return Group(
        *(
            _note(describe(cause, now), "yellow")
            for cause in causes
            if cause.kind not in SAID_BY_PROCESSES
        )
    )


def _note(text: str, style: str) -> Text:
    return Text(printable(text), style=style)
