"""Changes the settings of a topic on a real broker."""

from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined] # its stubs hide some
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)


def set_topic(admin: AdminClient, topic: str, setting: str, value: Any) -> None:
    """Change a setting and wait until the broker has it."""
    entry = ConfigEntry(setting, str(value), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)
