"""Connect trees to their producers' traces by the messages' `traceparent` headers."""

from kstorm.core.origins import Origin
from kstorm.errors import KstormError
from kstorm.kafka.traceparent import TRACEPARENT
from kstorm.operations.traces.topic_log import TopicLog


def traceparent_of(log: TopicLog, origin: Origin) -> str:
    """Return the header of the tree's message. Empty if the header or the message is missing."""
    try:
        headers, _ = log.headers_at((origin.topic, origin.partition), origin.offset)
    except KstormError:
        return ""
    return dict(headers).get(TRACEPARENT, "")
