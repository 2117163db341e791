"""Settings with secrets, from a variable or a mounted file. They are validated and never shown.

No message of this module quotes the content of a setting, because it may be a password.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from kstorm.errors import ConfigError


def read_secret_file(variable: str, path: str) -> str:
    """Return the text of the file that `variable` names, without the final newline that editors
    add."""
    try:
        return Path(path).read_text().rstrip("\r\n")
    except (OSError, ValueError) as error:
        # ValueError: not UTF-8, or not a valid file name
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise ConfigError(f"{variable} is {path!r}, which cannot be read: {reason}") from None


def parse_properties(variable: str, text: str) -> dict[str, str]:
    """Parse librdkafka properties from a JSON object. Values may be strings, numbers or
    booleans."""
    try:
        found = msgspec.json.decode(
            text.encode(errors="replace"), type=dict[str, str | bool | int | float]
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ConfigError(
            f"{variable} is not a JSON object of names and values: write e.g. "
            '{"security.protocol": "SSL"}'
        ) from None
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in found.items()
    }


def parse_zookeeper_auth(variable: str, text: str) -> str:
    """Check a login for ZooKeeper: `digest:user:password` or `sasl:user:password`."""
    if not re.fullmatch(r"(digest|sasl):[^:\s]+:\S+", text):
        raise ConfigError(
            f"{variable} is not of the form digest:user:password or sasl:user:password"
        )
    return text


def describe_login(client_config: Mapping[str, object]) -> str:
    """Return the protocol and login of the Kafka clients, without secrets."""
    mechanism = client_config.get("sasl.mechanism", client_config.get("sasl.mechanisms"))
    user = client_config.get("sasl.username")
    protocol = client_config.get("security.protocol", "plaintext")
    login = f", {mechanism} as user {user!r}" if user else f", {mechanism}" if mechanism else ""
    return f"{protocol}{login}"
