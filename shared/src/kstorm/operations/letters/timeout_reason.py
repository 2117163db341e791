"""Find in the topics what a timed-out message waited for, for `kstorm dlq show --why`."""

from collections.abc import Callable, Sequence
from math import inf
from typing import Final

from kstorm.core.dead_letters import TIMED_OUT, DeadLetter
from kstorm.errors import ControlError
from kstorm.introspection.outline import Outline
from kstorm.operations.letters.selection import kind_of
from kstorm.operations.traces.topic_log import ReadBudget, TopicLog
from kstorm.operations.traces.tracer import Tracer
from kstorm.operations.trees.facts import MessageId
from kstorm.operations.trees.timeouts import timeout_reasons
from kstorm.runtime.base.settings import Settings

_MOST_BYTES: Final = 2_048_000_000
_WITHIN_SECS: Final = 60.0
_LONGEST: Final = 2.0
"""When an attempt times out, it began at most this multiple of the message timeout ago."""


def check_timed_out(letter: DeadLetter) -> None:
    """Raise `ControlError` if the letter's message did not time out."""
    if kind_of(letter) != TIMED_OUT or not letter.at:
        raise ControlError(
            f"--why is for letters of the kind {TIMED_OUT}, but this one is "
            f"{kind_of(letter) or 'of no kind'}"
        )


def timeout_reason(
    topology: Outline, settings: Settings, letter: DeadLetter, tell: Callable[[str], None]
) -> Sequence[str]:
    """Describe what the last attempt at the message waited for, one line per tuple.

    `tell` receives the progress. Raises `ControlError` if the attempt's tree cannot be found.
    """
    check_timed_out(letter)
    message = MessageId(letter.topic, letter.partition, letter.offset)
    timeouts = {spout.id: spout.timeout_ms for spout in topology.spouts}
    timeout = timeouts.get(letter.component, max(timeouts.values(), default=inf))
    with TopicLog(settings, ReadBudget(_MOST_BYTES, _WITHIN_SECS, tell)) as log:
        tracer = Tracer(topology, log)
        first = int(letter.at - min(_LONGEST * timeout, letter.at))
        found = [tree for tree in tracer.between(message, first, letter.at) if tree.origin]
        mine = [tree for tree in found if tree.origin and tree.origin.attempt == letter.attempts]
        if not mine:
            limit = (
                log.budget.exhausted
                or "frames are kept for topology_trace_retention_hours, by default a day"
            )
            raise ControlError(
                f"no tree of attempt {letter.attempts} at {message} was found: {limit}"
            )
        return timeout_reasons(mine, letter.at)
