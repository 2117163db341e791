"""The settings with which a process joins its component's consumer group, as a static member."""

from typing import Any, Final

from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.fetch_limits import OWN_TOPICS
from kstorm.runtime.kafka.release_check import member_id

_MOST_POLL_INTERVAL_MS: Final = 86_400_000
"""librdkafka's limit."""
_POLL_MARGIN_SECONDS: Final = 30.0


def member_config(
    settings: Settings, group: str, session_timeout_ms: int, revoke_secs: float
) -> dict[str, Any]:
    """Return librdkafka's properties. `revoke_secs` is the longest time that the process takes to
    release tasks."""
    return {
        **settings.client_config,
        "isolation.level": "read_committed",  # committed offsets then exclude open transactions
        "client.id": member_id(settings),
        "group.id": group,
        "group.instance.id": f"{group}-{settings.instance}",
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": session_timeout_ms,
        "max.poll.interval.ms": _most_ms_without_poll(revoke_secs, session_timeout_ms),
        # Members learn of a rebalance in the response to a heartbeat.
        "heartbeat.interval.ms": min(500, session_timeout_ms // 5),
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "queued.max.messages.kbytes": 16 * 1024,
        "fetch.wait.max.ms": 100,
        # librdkafka's default of 1000 leaves the processor idle after each time that the queue was
        # full.
        "fetch.queue.backoff.ms": 20,
        "fetch.message.max.bytes": 4 << 20,
        **OWN_TOPICS,
        "topic.metadata.refresh.interval.ms": 30_000,
    }


def _most_ms_without_poll(revoke_secs: float, session_timeout_ms: int) -> int:
    """Return `max.poll.interval.ms`, which is also the timeout for rejoining the group.

    The group waits this long for members to rejoin, so it must exceed the time to release tasks.
    But it should not be longer than necessary, because librdkafka waits this long before it repeats
    a join request. Brokers may lose such a request: one did so after it was killed and then loaded
    its groups twice.
    """
    return min(
        max(session_timeout_ms, int((revoke_secs + _POLL_MARGIN_SECONDS) * 1000)),
        _MOST_POLL_INTERVAL_MS,
    )
