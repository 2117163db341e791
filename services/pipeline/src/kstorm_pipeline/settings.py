"""Settings of the pipeline, from flags and the environment.

Each setting has a flag (`--max-records-per-batch`) and an environment variable
(`KSTORM_PIPELINE_MAX_RECORDS_PER_BATCH`). The flag wins. All settings are read and checked before
Spark starts, so a mistake is reported in one line and at once.
"""

from __future__ import annotations

import ast
import inspect
import json
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import TYPE_CHECKING

from kstorm_pipeline.encryption import refuse_weaker
from kstorm_pipeline.errors import SettingsError
from kstorm_pipeline.setting_values import (
    PAIRS,
    PARSERS,
    PREFIX,
    Trigger,
    json_object,
    mounted,
    name_of,
    pairs,
    plain,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kstorm_pipeline.zookeeper_tls import ZooKeeperTls


@dataclass(frozen=True, slots=True)
class Settings:
    tables: str
    """Location of the Delta tables: a directory or a URL that Spark's file systems support.
    Required by every command."""
    bootstrap_servers: str = ""
    """Kafka's bootstrap servers, `host:port[,host:port…]`. Required by `run` and `audit`."""
    topic: str = ""
    """The sink topic to read. Required by `run`."""
    pipeline: str = ""
    """The tables to create, as `package.module:attribute` of a `kstorm_pipeline.Pipeline`. Default:
    only silver, for any topic."""
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
    the last one ended."""
    max_records_per_batch: int = 500_000
    """The most records per batch from Kafka. Limits memory, and the work repeated after a crash."""
    allow_data_loss: bool = False
    """Continue, without them, if Kafka has deleted unread records. Otherwise it is an error."""
    jars: tuple[str, ...] = ()
    """Jars for Spark, separated by commas, `*` as in a shell: the Kafka connector, Delta and their
    dependencies. Default: resolved by Ivy."""
    driver_memory: str = "1g"
    """Heap of the driver, which is all of Spark under `local`: a number followed by `m` or `g`."""
    driver_java_options: str = ""
    """Additional options for the driver's JVM. `-XX:TieredStopAtLevel=1` reduced the CPU time for
    half a million records by a third."""
    shuffle_partitions: int = 4
    """Partitions of a shuffle. About twice the number of cores."""
    bronze_days: float = 0.0
    """Days for which bronze keeps a processed record, by its Kafka timestamp. 0 is forever.
    `maintain` deletes older ones."""
    kafka_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Additional settings for Kafka's client, by their Kafka names (`security.protocol`,
    `sasl.jaas.config`, …)."""
    topology: str = ""
    """The topology whose messages are audited. Required by `audit`."""
    zookeeper: str = ""
    """ZooKeeper's servers, `host:port[,host:port…][/chroot]`: `audit` reads there up to which
    offset messages are due. Without it, messages after the last finished range count as not yet
    due."""
    zookeeper_tls: ZooKeeperTls | None = None
    """TLS to ZooKeeper, as a JSON object: `{"ca": FILE, "certfile": FILE, "keyfile": FILE,
    "keyfile_password_file": FILE, "check_hostname": true}`. Each name is optional, and `{}` enables
    TLS too."""
    http_port: int = 0
    """The port of `/metrics`, `/livez` and `/readyz` during `run`. 0 is none."""
    stalled_seconds: float = 600.0
    """`/livez` fails after this many seconds without progress of an active query (no Spark task
    starts or ends). `/readyz` fails after a tenth of them. Set it above the duration of the slowest
    single step in the pipeline's functions."""
    quarantine_percent: float = 50.0
    """Warn of, and count, a batch in which more than this percentage of the records are unreadable.
    100 is never."""
    schema_registry: str = field(default="", repr=False)
    """The schema registry for records with a schema id, `http://host:port`. If several are given,
    separated by commas, the first that answers is used."""
    schema_registry_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Login and certificates for the schema registry: `basic.auth.user.info` (`user:password`),
    `bearer.auth.token`, `ssl.ca.location`, `ssl.certificate.location`, `ssl.key.location`,
    `ssl.key.password`."""
    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Additional settings for Spark. They win over the pipeline's own. Values from a mounted file,
    or with a secret name, are on no command line."""

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
                **json_object(each.name, text),
                **mounted(each.name, file),
                **pairs(each.name, given or ()),
            }
        elif given is not None or text:
            values[each.name] = PARSERS.get(each.name, plain)(
                each.name, text if given is None else str(given)
            )
    for name in ("tables", *needs):
        if not values.get(name):
            raise SettingsError(f"{name_of(name)} is not set")
    settings = Settings(**values)  # type: ignore[arg-type]
    _check_together(settings)
    return settings


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


def _check_together(settings: Settings) -> None:
    refuse_weaker(settings.spark_conf)
    if settings.starting_offsets.startswith("{") and settings.topic not in json.loads(
        settings.starting_offsets
    ):
        raise SettingsError(
            f"{name_of('starting_offsets')} does not name the topic {settings.topic!r}"
        )
