"""Report quickly that no broker can be reached."""

from typing import Final

from kstorm.errors import NoBrokerError
from kstorm.runtime.base.reachable import parse_addresses, why_unreachable
from kstorm.runtime.base.settings import Settings

_PORT: Final = 9092


def check_reachable(settings: Settings) -> None:
    """Raise `NoBrokerError` if every bootstrap server refuses connections or is unknown."""
    servers = str(settings.client_config["bootstrap.servers"])
    addresses = parse_addresses(servers, _PORT)
    why = why_unreachable(addresses) if addresses else ""
    if why:
        raise NoBrokerError(
            f"no Kafka broker answered at {servers!r} ({why}): is it running, and is "
            "KSTORM_BOOTSTRAP_SERVERS or --bootstrap right?"
        )
