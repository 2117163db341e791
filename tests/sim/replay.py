"""Replays one schedule from its seed."""

from rich.console import Console

from tests.sim import ViolationError
from tests.sim.guarantees import GUARANTEES


def replay(seed: int, trace: bool, console: Console, kind: str) -> int:
    """Run the schedule of a seed. With `trace`, print its events. Return 1 if it is violated."""

    def tell(line: str) -> None:
        if trace:
            console.print(line, markup=False, highlight=False, soft_wrap=True)

    try:
        report = GUARANTEES[kind].run(seed, tell)
    except ViolationError as error:
        console.print(f"[red]violation[/] {error}")
        return 1
    faults = ", ".join(f"{name} {count}×" for name, count in report.faults.most_common()) or "none"
    console.print(
        f"seed {seed}: {report.messages} messages, {report.replays} replays, {report.executions:,} executions, "
        f"done after {report.seconds:.0f} virtual seconds; faults: {faults}"
    )
    return 0
