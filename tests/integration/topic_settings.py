"""Changes the settings of a topic on a real broker."""

import time
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined] # its stubs hide some
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)


def set_topic(admin: AdminClient, topic: str, setting: str, value: Any) -> None:
    """Change a setting and wait until the broker applies it.

    The controller answers before the broker has the change. A broker shows a change before its logs
    obey it, but they obey it before the broker shows the next one.
    """
    for name, wanted in ((setting, str(value)), ("segment.jitter.ms", str(time.time_ns() % 10**6))):
        _alter(admin, topic, name, wanted)
        until = time.monotonic() + 30
        while _shown(admin, topic, name) != wanted:
            assert time.monotonic() < until, f"the broker does not show {name}={wanted} of {topic}"
            time.sleep(0.01)


def _alter(admin: AdminClient, topic: str, setting: str, value: str) -> None:
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


def _shown(admin: AdminClient, topic: str, setting: str) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    value: str = admin.describe_configs([resource])[resource].result(30)[setting].value
    return value
