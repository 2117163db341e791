"""Show the tree of one message as it grows.

A terminal is updated in place. On any other output, the whole tree is printed after each change.
"""

import sys
import time
from collections.abc import Sequence
from typing import Final

from rich.live import Live
from rich.text import Text

from kstorm.errors import ControlError
from kstorm.operations.traces.topic_log import ReadBudget
from kstorm.operations.traces.topology_traces import TopologyTraces
from kstorm.operations.trees.drawing import draw
from kstorm.operations.trees.facts import MessageId
from kstorm.operations.trees.tree import Tree
from kstorm.printable import printable
from kstorm.runtime.base.terminal import Screen

_LOOK_SECS: Final = 0.3
_MOST_BYTES: Final = 2_000_000_000


def watch_tree(tracing: TopologyTraces, message: MessageId, seconds: float) -> None:
    """Show the message's trees until they are complete.

    Raises `ControlError` if a tree has failed, or after `seconds`.
    """
    deadline = time.monotonic() + seconds
    tracing.log.budget = ReadBudget(_MOST_BYTES, seconds)
    shown: Sequence[str] = ()
    with Live(console=Screen(), auto_refresh=False, transient=False) as live:
        while True:
            tracing.tracer.look_again()
            trees = tracing.tracer.attempts(message)
            lines = [printable(line) for tree in trees for line in draw(tree, tracing.topology)]
            if lines != shown:
                shown = lines
                if live.console.is_terminal:
                    live.update(Text("\n".join(lines)), refresh=True)
                else:
                    print("\n".join(lines), flush=True)
            if trees and all(tree.outcome == "acked" for tree in trees):
                return
            if any(tree.outcome == "failed" for tree in trees):
                raise ControlError(
                    f"{message} has failed: `kstorm why {message}` shows when it is retried"
                )
            if time.monotonic() >= deadline:
                raise ControlError(_late(message, trees, seconds))
            time.sleep(_LOOK_SECS)


def _late(message: MessageId, trees: Sequence[Tree], seconds: float) -> str:
    what = "its tree is not complete" if trees else "no tree of it was found"
    sys.stdout.flush()
    return f"{message}: {what} within {seconds:g} s: `kstorm why {message}` shows which task has it"
