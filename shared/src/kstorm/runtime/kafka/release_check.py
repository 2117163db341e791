"""Checks which release of a topology is running, from the client ids of the group members.

Kafka lists the members of a group, so kstorm does not have to store releases, and a former release
does not interfere. A process without a configured release matches any release.
"""

from typing import Final

from kstorm.errors import InUseError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.topology import Topology
from kstorm.topology.topology import ACKER_COMPONENT

_BEFORE_RELEASE: Final = "@"  # not allowed in pod names and releases


def member_id(settings: Settings) -> str:
    """Return the client id of a process as a member of its group."""
    return (
        f"{settings.instance}{_BEFORE_RELEASE}{settings.release}"
        if settings.release
        else settings.instance
    )


def check_single_release(topology: Topology, settings: Settings) -> None:
    """Raise `InUseError` if processes of another release have tasks of this topology.

    Raises `BrokerError` if Kafka does not respond.
    """
    if not settings.release:
        return
    groups = [topology.group(component) for component in (*topology.components, ACKER_COMPONENT)]
    for group, members in Admin(settings).group_members(groups).items():
        for member in members:
            instance, _, release = member.client_id.partition(_BEFORE_RELEASE)
            if release and release != settings.release:
                raise InUseError(
                    f"the topology {topology.name!r} already runs as the release {release} "
                    f"({instance} is in the group {group!r}), and {settings.release} would take "
                    f"its tasks: uninstall {release} first, or give this topology another name"
                )
