"""Why a spout gives a message up, as it tells the dead letters."""

from kstorm.core.dead_letters import FAILED, TIMED_OUT
from kstorm.topology import Note, SpoutOutputCollector

Cause = tuple[str, Note | None]
"""The kind of a dead letter, and what went wrong, if that is known."""


def why_failed(collector: SpoutOutputCollector) -> Cause:
    """Of the failure that a spout is being told of: what the task that failed the tuple has said, if that is known."""
    return TIMED_OUT if collector.timed_out else FAILED, collector.why_failed
