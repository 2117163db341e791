"""Reject settings of a `KafkaBolt` that are invalid or contradict each other."""

from collections.abc import Mapping
from typing import Any

from kstorm.errors import ConfigError
from kstorm.kafka.mapper import TopicSelector


def reject_serializers(properties: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if the producer properties contain a serializer."""
    for side in ("key", "value"):
        if (serializer := properties.get(f"{side}.serializer")) is not None:
            raise ConfigError(
                f"the producer property {side}.serializer is {serializer!r}: use "
                f".with_{side}_serializer(StringSerializer()) instead, or leave it out, because "
                "text needs no serializer"
            )


def checked_topic_selector(
    component: str,
    selector: TopicSelector | None,
    asynchronous: bool,
    fire_and_forget: bool,
    properties: Mapping[str, Any] | None,
) -> TopicSelector:
    """Return the topic selector. Raises `ConfigError` if it is missing or settings contradict."""
    if selector is None:
        raise ConfigError(
            f"the KafkaBolt {component!r} has no topic: add .with_topic_selector('a-topic')"
        )
    if fire_and_forget and not asynchronous:
        raise ConfigError(
            f"the KafkaBolt {component!r} cannot both wait for each record and for none: leave "
            "out either .with_async(False) or .with_fire_and_forget()"
        )
    for name in ("acks", "request.required.acks"):
        if str((properties or {}).get(name)) == "0" and not fire_and_forget:
            raise ConfigError(
                f"the KafkaBolt {component!r} has the producer property {name}=0, with which the "
                "broker confirms no records, so no tuple could be acked: leave it out, or add "
                ".with_fire_and_forget()"
            )
    return selector
