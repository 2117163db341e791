"""Settings of the pipeline, from flags and the environment.

Each setting has a flag (`--max-records-per-batch`) and an environment variable
(`KSTORM_PIPELINE_MAX_RECORDS_PER_BATCH`). The flag wins. All settings are read and checked before
Spark starts, so a mistake is reported in one line and at once.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args
from urllib.parse import urlsplit

from kstorm_pipeline.encryption import refuse_weaker
from kstorm_pipeline.errors import SettingsError
from kstorm_pipeline.registry import without_login
from kstorm_pipeline.zookeeper_tls import ZooKeeperTls, parse_tls

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

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


@dataclass(frozen=True, slots=True)
class Settings:
    tables: str
    """Location of the Delta tables: a directory or a URL that Spark's file systems support.
    Required by every command.
    """
    bootstrap_servers: str = ""
    """Kafka's bootstrap servers, `host:port[,host:port…]`. Required by `run` and `audit`."""
    topic: str = ""
    """The sink topic to read. Required by `run`."""
    pipeline: str = ""
    """The tables to create, as `package.module:attribute` of a `kstorm_pipeline.Pipeline`. Default:
    only silver, for any topic.
    """
    checkpoints: str = ""
    """Location of the queries' checkpoints. Default: `_checkpoints` below `tables`."""
    master: str = "local[*]"
    """Spark's master URL: `local[*]`, `spark://…`, `k8s://…`, `yarn`."""
    trigger: Trigger = "available-now"
    """`available-now` reads what the topic has now. `continuous` runs until SIGTERM or SIGINT."""
    interval_seconds: float = 10.0
    """Seconds from batch to batch with the trigger `continuous`."""
    starting_offsets: str = "earliest"
    """Start of the very first run: `earliest`, `latest` or Spark's JSON. Later runs continue where
    the last one ended.
    """
    max_records_per_batch: int = 500_000
    """The most records per batch from Kafka. Limits memory, and the work repeated after a crash."""
    allow_data_loss: bool = False
    """Continue, without them, if Kafka has deleted unread records. Otherwise it is an error."""
    jars: tuple[str, ...] = ()
    """Jars for Spark, separated by commas, `*` as in a shell: the Kafka connector, Delta and their
    dependencies. Default: resolved by Ivy.
    """
    driver_memory: str = "1g"
    """Heap of the driver, which is all of Spark under `local`: a number followed by `m` or `g`."""
    driver_java_options: str = ""
    """Additional options for the driver's JVM. `-XX:TieredStopAtLevel=1` reduced the CPU time for
    half a million records by a third.
    """
    shuffle_partitions: int = 4
    """Partitions of a shuffle. About twice the number of cores."""
    bronze_days: float = 0.0
    """Days for which bronze keeps a processed record, by its Kafka timestamp. 0 is forever.
    `maintain` deletes older ones.
    """
    kafka_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Additional settings for Kafka's client, by their Kafka names (`security.protocol`,
    `sasl.jaas.config`, …).
    """
    topology: str = ""
    """The topology whose messages are audited. Required by `audit`."""
    zookeeper: str = ""
    """ZooKeeper's servers, `host:port[,host:port…][/chroot]`: `audit` reads there up to which
    offset messages are due. Without it, messages after the last finished range count as not yet
    due.
    """
    zookeeper_tls: ZooKeeperTls | None = None
    """TLS to ZooKeeper, as a JSON object: `{"ca": FILE, "certfile": FILE, "keyfile": FILE,
    "keyfile_password_file": FILE, "check_hostname": true}`. Each name is optional, and `{}` enables
    TLS too.
    """
    http_port: int = 0
    """The port of `/metrics`, `/livez` and `/readyz` during `run`. 0 is none."""
    stalled_seconds: float = 600.0
    """`/livez` fails after this many seconds without progress of an active query (no Spark task
    starts or ends). `/readyz` fails after a tenth of them. Set it above the duration of the slowest
    single step in the pipeline's functions.
    """
    quarantine_percent: float = 50.0
    """Warn of, and count, a batch in which more than this percentage of the records are unreadable.
    100 is never.
    """
    schema_registry: str = field(default="", repr=False)
    """The schema registry for records with a schema id, `http://host:port`. If several are given,
    separated by commas, the first that answers is used.
    """
    schema_registry_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Login and certificates for the schema registry: `basic.auth.user.info` (`user:password`),
    `bearer.auth.token`, `ssl.ca.location`, `ssl.certificate.location`, `ssl.key.location`,
    `ssl.key.password`.
    """
    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Additional settings for Spark. They win over the pipeline's own. Values from a mounted file,
    or with a secret name, are on no command line.
    """

    @property
    def checkpoint_root(self) -> str:
        """`checkpoints`, or its default."""
        return (self.checkpoints or f"{self.tables.rstrip('/')}/_checkpoints").rstrip("/")


def load(
    arguments: Namespace, environment: Mapping[str, str], *, needs: Sequence[str] = ()
) -> Settings:
    """Return the settings from parsed flags (None if not given) and the environment.

    `needs` are the settings that the command requires in addition to `tables`. Raises SettingsError
    with one line that names the setting.
    """
    values: dict[str, object] = {}
    for each in fields(Settings):
        text = environment.get(PREFIX + each.name.upper(), "").strip()
        given = getattr(arguments, each.name, None)
        if each.name in PAIRS:
            file = environment.get(PREFIX + each.name.upper() + "_FILE", "").strip()
            values[each.name] = {
                **_json_object(each.name, text),
                **_mounted(each.name, file),
                **_pairs(each.name, given or ()),
            }
        elif given is not None or text:
            values[each.name] = _PARSERS.get(each.name, _plain)(
                each.name, text if given is None else str(given)
            )
    for name in ("tables", *needs):
        if not values.get(name):
            raise SettingsError(f"{_name(name)} is not set")
    settings = Settings(**values)  # type: ignore[arg-type]
    _check_together(settings)
    return settings


def flag(name: str) -> str:
    """Return the command line flag of a setting."""
    return PAIRS.get(name, "--" + name.replace("_", "-"))


def is_url(place: str) -> bool:
    """Return True for a URL, False for a path."""
    return bool(_URL.match(place))


def help_texts() -> dict[str, str]:
    """Return the description of each setting: the docstrings below the fields of `Settings`."""
    body = ast.parse(inspect.getsource(Settings)).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        statement.target.id: text.value.value
        for statement, text in pairwise(body.body)
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _name(name: str) -> str:
    return f"{flag(name)} ({PREFIX}{name.upper()})"


def _plain(_: str, text: str) -> str:
    return text


def _servers(name: str, text: str) -> str:
    servers = [server.strip() for server in text.split(",")]
    for server in servers:
        match = _HOST_AND_PORT.fullmatch(server)
        if match is None or not 0 < int(match["port"]) < 65536:
            raise SettingsError(f"{_name(name)} has {server!r}, which is not host:port")
    return ",".join(servers)


def _registries(name: str, text: str) -> str:
    for address in text.split(","):
        parts = urlsplit(address.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError(
                f"{_name(name)} has {without_login(address)!r}, which is not http://host:port"
            )
    return text


def _topic(name: str, text: str) -> str:
    if not _TOPIC.fullmatch(text):
        raise SettingsError(
            f"{_name(name)} is {text!r}; give at most 249 letters, digits, '.', '_' and '-'"
        )
    return text


def _master(name: str, text: str) -> str:
    if not _MASTER.fullmatch(text):
        raise SettingsError(
            f"{_name(name)} is {text!r}; give local[*], spark://host:port, k8s://https://… or yarn"
        )
    return text


def _trigger(name: str, text: str) -> Trigger:
    if text not in get_args(Trigger):
        raise SettingsError(f"{_name(name)} is {text!r}; give {' or '.join(get_args(Trigger))}")
    return cast("Trigger", text)


def _seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= 86400:
        raise SettingsError(f"{_name(name)} is {text!r}; give seconds above 0, at most 86400")
    return seconds


def _days(name: str, text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 <= days <= 36500:
        raise SettingsError(
            f"{_name(name)} is {text!r}; give days, at most 36500, or 0 to keep all"
        )
    return days


def _percent(name: str, text: str) -> float:
    try:
        percent = float(text)
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise SettingsError(f"{_name(name)} is {text!r}; give a percentage from 0 to 100")
    return percent


def _whole(name: str, text: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", text) or int(text) < 1:
        raise SettingsError(f"{_name(name)} is {text!r}; give a whole number of 1 or more")
    return int(text)


def _port(name: str, text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > 65535:
        raise SettingsError(f"{_name(name)} is {text!r}; give a port, or 0 for none")
    return int(text)


def _truth(name: str, text: str) -> bool:
    truths = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in truths:
        raise SettingsError(f"{_name(name)} is {text!r}; give true or false")
    return truths[text.lower()]


def _place(name: str, text: str) -> str:
    if is_url(text):
        return text
    if Path(text).exists() and not Path(text).is_dir():
        raise SettingsError(f"{_name(name)} is {text!r}, which is a file; give a directory")
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
            raise SettingsError(f"{_name(name)} has {jar!r}, but there is no such file")
        jars += found
    return tuple(jars)


def _memory(name: str, text: str) -> str:
    if not _MEMORY.fullmatch(text):
        raise SettingsError(
            f"{_name(name)} is {text!r}; give a number followed by m or g, such as 800m"
        )
    return text


def _offsets(name: str, text: str) -> str:
    if text not in ("earliest", "latest"):
        _json_object(name, text, "earliest, latest or ")
    return text


def _json_object(name: str, text: str, or_else: str = "") -> dict[str, str]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        # The value stays out of the message: options carry passwords.
        raise SettingsError(f"{_name(name)} cannot be read; give {or_else}a JSON object")
    return {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in found.items()
    }


def _mounted(name: str, file: str) -> dict[str, str]:
    """Return a mounted file's contents. Refuses settings that Spark writes on command lines."""
    found = _json_object(name, _text_of(name, file) if file else "")
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


def _pairs(name: str, texts: list[str] | tuple[str, ...]) -> dict[str, str]:
    for text in texts:
        if not text.partition("=")[0] or "=" not in text:
            raise SettingsError(f"{_name(name)} was given without a value; give NAME=VALUE")
    return {text.partition("=")[0].strip(): text.partition("=")[2] for text in texts}


def _check_together(settings: Settings) -> None:
    refuse_weaker(settings.spark_conf)
    if settings.starting_offsets.startswith("{") and settings.topic not in json.loads(
        settings.starting_offsets
    ):
        raise SettingsError(
            f"{_name('starting_offsets')} does not name the topic {settings.topic!r}"
        )


_PARSERS = {
    "tables": _place,
    "checkpoints": _place,
    "bootstrap_servers": _servers,
    "schema_registry": _registries,
    "topic": _topic,
    "zookeeper_tls": lambda name, text: parse_tls(_name(name), text),
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
