"""Reads and checks the values of settings. A mistake names the setting."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Literal, cast, get_args
from urllib.parse import urlsplit

from kstorm_pipeline.errors import SettingsError
from kstorm_pipeline.registry import without_login
from kstorm_pipeline.zookeeper_tls import parse_tls

PREFIX = "KSTORM_PIPELINE_"

Trigger = Literal["available-now", "continuous"]

PAIRS = {
    "kafka_options": "--kafka-option",
    "schema_registry_options": "--schema-registry-option",
    "spark_conf": "--spark-conf",
}
"""Settings of names and values, with their flags (one pair per flag). The environment variable is a
JSON object.

The variable with the suffix `_FILE` names a file with such an object, such as a mounted secret. It
wins over the other variable.
"""

_HOST_AND_PORT = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s,:\[\]]+):(?P<port>[0-9]{1,5})")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_MASTER = re.compile(r"local(\[[^\]]+\])?|local-cluster\[[^\]]+\]|yarn|spark://.+|k8s://.+")
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")
_MEMORY = re.compile(r"[1-9][0-9]*[mg]")
_AT_START = re.compile(
    r"spark\.(master|app\.name|home|jars|files|archives|submit|driver|executor|executorEnv|rpc|network|port"
    r"|yarn\.appMasterEnv|kubernetes\.driverEnv"
    r"|auth(?!enticate\.secret$)|ssl(?!.*Password))\b.*|spark\..*\.port|spark\.auth(?!enticate\.secret$).*"
)
"""Settings that Spark needs at a JVM's start, or passes on in Java options or the environment."""


class Mounted(str):
    """A value from a mounted file. It is secret, whatever its name."""

    __slots__ = ()


def flag(name: str) -> str:
    """Return the command line flag of a setting."""
    return PAIRS.get(name, "--" + name.replace("_", "-"))


def is_url(place: str) -> bool:
    """Return True for a URL, False for a path."""
    return bool(_URL.match(place))


def name_of(name: str) -> str:
    return f"{flag(name)} ({PREFIX}{name.upper()})"


def plain(_: str, text: str) -> str:
    return text


def _servers(name: str, text: str) -> str:
    servers = [server.strip() for server in text.split(",")]
    for server in servers:
        match = _HOST_AND_PORT.fullmatch(server)
        if match is None or not 0 < int(match["port"]) < 65536:
            raise SettingsError(f"{name_of(name)} has {server!r}, which is not host:port")
    return ",".join(servers)


def _registries(name: str, text: str) -> str:
    for address in text.split(","):
        parts = urlsplit(address.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError(
                f"{name_of(name)} has {without_login(address)!r}, which is not http://host:port"
            )
    return text


def _topic(name: str, text: str) -> str:
    if not _TOPIC.fullmatch(text):
        raise SettingsError(
            f"{name_of(name)} is {text!r}; give at most 249 letters, digits, '.', '_' and '-'"
        )
    return text


def _master(name: str, text: str) -> str:
    if not _MASTER.fullmatch(text):
        raise SettingsError(
            f"{name_of(name)} is {text!r}; give local[*], spark://host:port, k8s://https://… or yarn"
        )
    return text


def _trigger(name: str, text: str) -> Trigger:
    if text not in get_args(Trigger):
        raise SettingsError(f"{name_of(name)} is {text!r}; give {' or '.join(get_args(Trigger))}")
    return cast("Trigger", text)


def _number(text: str) -> float:
    """Return the number, or -1, which no setting allows."""
    try:
        return float(text)
    except ValueError:
        return -1.0


def _seconds(name: str, text: str) -> float:
    seconds = _number(text)
    if not 0 < seconds <= 86400:
        raise SettingsError(f"{name_of(name)} is {text!r}; give seconds above 0, at most 86400")
    return seconds


def _days(name: str, text: str) -> float:
    days = _number(text)
    if not 0 <= days <= 36500:
        raise SettingsError(
            f"{name_of(name)} is {text!r}; give days, at most 36500, or 0 to keep all"
        )
    return days


def _percent(name: str, text: str) -> float:
    percent = _number(text)
    if not 0 <= percent <= 100:
        raise SettingsError(f"{name_of(name)} is {text!r}; give a percentage from 0 to 100")
    return percent


def _whole(name: str, text: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", text) or int(text) < 1:
        raise SettingsError(f"{name_of(name)} is {text!r}; give a whole number of 1 or more")
    return int(text)


def _port(name: str, text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > 65535:
        raise SettingsError(f"{name_of(name)} is {text!r}; give a port, or 0 for none")
    return int(text)


def _truth(name: str, text: str) -> bool:
    truths = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in truths:
        raise SettingsError(f"{name_of(name)} is {text!r}; give true or false")
    return truths[text.lower()]


def _place(name: str, text: str) -> str:
    if is_url(text):
        return text
    if Path(text).exists() and not Path(text).is_dir():
        raise SettingsError(f"{name_of(name)} is {text!r}, which is a file; give a directory")
    return str(Path(text).absolute())


def find_jars(name: str, text: str) -> tuple[str, ...]:
    """Expand a comma-separated list of jars, with `*` as in a shell, to paths and URLs.

    Raises SettingsError if a file does not exist.
    """
    jars: list[str] = []
    for jar in filter(None, map(str.strip, text.split(","))):
        path = Path(jar).absolute()
        found = (
            [jar]
            if is_url(jar)
            else sorted(map(str, [path] if path.is_file() else path.parent.glob(path.name)))
        )
        if not found:
            raise SettingsError(f"{name_of(name)} has {jar!r}, but there is no such file")
        jars += found
    return tuple(jars)


def _memory(name: str, text: str) -> str:
    if not _MEMORY.fullmatch(text):
        raise SettingsError(
            f"{name_of(name)} is {text!r}; give a number followed by m or g, such as 800m"
        )
    return text


def _offsets(name: str, text: str) -> str:
    if text not in ("earliest", "latest"):
        json_object(name, text, "earliest, latest or ")
    return text


def json_object(name: str, text: str, or_else: str = "") -> dict[str, str]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        # The value stays out of the message: options carry passwords.
        raise SettingsError(f"{name_of(name)} cannot be read; give {or_else}a JSON object")
    return {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in found.items()
    }


def mounted(name: str, file: str) -> dict[str, str]:
    """Return a mounted file's contents. Refuses settings that Spark writes on command lines."""
    found = json_object(name, _text_of(name, file) if file else "")
    for key in found if name == "spark_conf" else ():
        if _AT_START.fullmatch(key):
            raise SettingsError(
                f"{PREFIX}SPARK_CONF_FILE has {key}, which Spark needs at its start or writes on "
                f"command lines: put it into {PREFIX}SPARK_CONF, and only secrets into the file"
            )
    return {key: Mounted(value) for key, value in found.items()}


def _text_of(name: str, file: str) -> str:
    try:
        return Path(file).read_text()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise SettingsError(
            f"{PREFIX}{name.upper()}_FILE is {file!r}, which cannot be read: {reason}"
        ) from None


def pairs(name: str, texts: list[str] | tuple[str, ...]) -> dict[str, str]:
    for text in texts:
        if not text.partition("=")[0] or "=" not in text:
            raise SettingsError(f"{name_of(name)} was given without a value; give NAME=VALUE")
    return {text.partition("=")[0].strip(): text.partition("=")[2] for text in texts}


PARSERS = {
    "tables": _place,
    "checkpoints": _place,
    "bootstrap_servers": _servers,
    "schema_registry": _registries,
    "topic": _topic,
    "zookeeper_tls": lambda name, text: parse_tls(name_of(name), text),
    "master": _master,
    "trigger": _trigger,
    "interval_seconds": _seconds,
    "http_port": _port,
    "stalled_seconds": _seconds,
    "quarantine_percent": _percent,
    "starting_offsets": _offsets,
    "max_records_per_batch": _whole,
    "allow_data_loss": _truth,
    "jars": find_jars,
    "driver_memory": _memory,
    "shuffle_partitions": _whole,
    "bronze_days": _days,
}
