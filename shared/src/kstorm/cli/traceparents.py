"""The producer's side of a trace: the header `traceparent` of the messages that trees are of."""

from kstorm.core.origins import Origin
from kstorm.errors import KstormError
from kstorm.kafka.traceparent import TRACEPARENT
from kstorm.runtime.tracing.log import TopicLog


def traceparent_of(log: TopicLog, origin: Origin) -> str:
    """Of the message that a tree is of; empty if it has none, or is gone."""
    try:
        headers, _ = log.headers_at((origin.topic, origin.partition), origin.offset)
    except KstormError:
        return ""
    return dict(headers).get(TRACEPARENT, "")
