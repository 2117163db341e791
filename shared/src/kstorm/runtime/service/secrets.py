"""Settings that hold secrets: read from a variable or from a mounted file, checked, and never shown.

The rule: no message of this module quotes what it read, since that may be a password.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from kstorm.errors import ConfigError


def read_file(variable: str, path: str) -> str:
    """The text of the file that `variable` names, without the line's end that editors add."""
    try:
        return Path(path).read_text().rstrip("\r\n")
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or no name of a file
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise ConfigError(f"{variable} is {path!r}, which cannot be read: {reason}") from None


def properties(variable: str, text: str) -> dict[str, str]:
    """Properties for librdkafka out of a JSON object; numbers and true and false may stand there as such."""
    try:
        found = msgspec.json.decode(
            text.encode(errors="replace"), type=dict[str, str | bool | int | float]
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ConfigError(
            f'{variable} is no JSON object of names and values: write e.g. {{"security.protocol": "SSL"}}'
        ) from None
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in found.items()
    }


def zookeeper_auth(variable: str, text: str) -> str:
    """A login for ZooKeeper: `digest:user:password` or `sasl:user:password`."""
    if not re.fullmatch(r"(digest|sasl):[^:\s]+:\S+", text):
        raise ConfigError(
            f"{variable} is not of the form digest:user:password or sasl:user:password"
        )
    return text


def who(client_config: Mapping[str, object]) -> str:
    """Whom Kafka is told that we are, as far as that is no secret."""
    mechanism = client_config.get("sasl.mechanism", client_config.get("sasl.mechanisms"))
    user = client_config.get("sasl.username")
    protocol = client_config.get("security.protocol", "plaintext")
    login = f", {mechanism} as user {user!r}" if user else f", {mechanism}" if mechanism else ""
    return f"{protocol}{login}"
