"""A service's settings, read from the environment and validated before anything starts."""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from kstorm.errors import ConfigError, TopologyError
from kstorm.references import ExpectedKind, find, is_file
from kstorm.runtime.base import secrets
from kstorm.runtime.base.client_log import CLIENT_LOG
from kstorm.runtime.base.loopback import is_loopback
from kstorm.runtime.base.pod_scale import pod_number
from kstorm.runtime.base.zookeeper_tls import ZooKeeperTls, parse_tls
from kstorm.stand_ins import installed_before
from kstorm.topology import Topology

_SECRETS = ("kafka_properties", "zookeeper_auth", "state_token")  # may be in a file instead
_TOKEN_CHARACTERS = 16


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one service process. Each field is read from `KSTORM_` and its name in
    capitals."""

    topology: str
    """The topology: `package.module:attribute`, or the path of a YAML file (docs/guides/flux.md).

    The attribute is a `Topology`, a function that returns one, or a class of a streamparse topology
    (docs/guides/from-streamparse.md).
    """

    topology_filter: str = ""
    """A properties file for `${name}` in a topology's YAML file. Empty: none."""

    component: str = ""
    """The spout or bolt whose tasks this process runs. Not needed for an acker."""

    topology_id: str = ""
    """ID of this deployment of the topology, such as `wordcount-1-1489642910`. Empty: none.

    All processes of a deployment have the same ID, also after a restart. Each deployment has a
    different ID, for example with the revision of the Helm release. The ID is stored with the
    offsets, and `SpoutConfig.ignore_zk_offsets` needs it.
    """

    release: str = ""
    """The installation of this process, such as `namespace/release` with Helm. Upgrades do not
    change it.

    `kstorm prepare` refuses a second installation that would take the tasks of the first. Empty:
    unknown.
    """

    bootstrap_servers: str = "localhost:9092"
    """Kafka's bootstrap servers, comma-separated."""

    zookeeper: str = "localhost:2181"
    """ZooKeeper's connect string.

    Spouts store offsets in ZooKeeper, and look up there if their topology is deactivated.
    Spouts that store no offsets also run while ZooKeeper is down.
    """

    instance: str = field(default_factory=socket.gethostname)
    """A name that is unique among the processes of a component and survives restarts, such as a
    pod's name.

    A process that restarts under its name within the session timeout keeps its tasks without a
    rebalance.
    """

    leave_on_stop: bool = False
    """Leave the consumer group when the process is stopped, so that others get its tasks after
    about a second.

    Set it if no process comes back under this name, as with pods of a Deployment. Otherwise its
    tasks wait for the session timeout.
    """

    stateful_set: str = ""
    """The StatefulSet that `instance` is a pod of, if the process may read its scale from
    Kubernetes. Empty: no query.

    With this setting, a pod that is scaled away leaves its group too, but a pod that comes back
    does not.
    """

    data_dir: Path = Path(".kstorm/data")
    """Folder for RocksDB, used by this process only. Its contents can be rebuilt from
    changelogs."""

    web_host: str = "0.0.0.0"  # noqa: S104 - probes and Prometheus come from outside the pod
    """Address of `/livez`, `/readyz`, `/metrics` and `/status`."""

    web_port: int = 6066
    """Port of these pages."""

    state_queries: bool = False
    """Serve the state of stateful bolts at `/state`. If other machines can reach it, `state_token`
    is required."""

    state_token: str = field(default="", repr=False)
    """Token for reading the state, at least 16 characters, which may instead be in the file that
    `KSTORM_STATE_TOKEN_FILE` names.

    Empty: no token, and only this machine gets a response.
    """

    replication_factor: int = 1
    """Replication factor of the topics that `ensure_topics` creates."""

    end_partitions: int = 0
    """Number of partitions with which the process creates missing source and sink topics.

    Used with a Kafka that is part of the topology's release. 0: the process does not create these
    topics.
    """

    log_level: str = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""

    log_format: str = "json"
    """`json`: one object per line. `console`: for people."""

    kafka_properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further librdkafka properties for every client (TLS, SASL), as a JSON object.

    Properties in the file that `KSTORM_KAFKA_PROPERTIES_FILE` names are added and take precedence.
    """

    zookeeper_auth: str = field(default="", repr=False)
    """Login for ZooKeeper: `digest:user:password`, or `sasl:user:password` for SASL's DIGEST-MD5.

    It may be in the file that `KSTORM_ZOOKEEPER_AUTH_FILE` names. Nodes that are created with a
    login are accessible to this user only. Empty: no login, and created nodes are open to all.
    """

    zookeeper_tls: ZooKeeperTls | None = None
    """TLS for every ZooKeeper connection, as a JSON object with the fields of `ZooKeeperTls`:
    `{"ca": "/etc/zookeeper/ca.crt"}`. Unset: none."""

    def load_topology(self) -> Topology:
        """Import the topology. Raises `ConfigError` or `TopologyError` with the reason."""
        return load_topology(self.topology, self.topology_filter)

    def component_of(self, topology: Topology, kind: Literal["spout", "bolt"]) -> str:
        """Return the component of this process. Raises `ConfigError` if `KSTORM_COMPONENT` is not
        of that kind."""
        ids = [spec.id for spec in topology.components.values() if spec.kind == kind]
        if self.component not in ids:
            names = ", ".join(map(repr, ids))
            raise ConfigError(
                f"KSTORM_COMPONENT is {self.component!r}: the {kind}s of {topology.name!r} are "
                f"{names}"
            )
        return self.component

    @property
    def client_config(self) -> dict[str, Any]:
        """The librdkafka properties shared by all clients of this process."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "reconnect.backoff.ms": 100,
            "reconnect.backoff.max.ms": 2000,
            # Otherwise a client forgets all brokers when their connections break, and may then wait
            # forever.
            "metadata.recovery.strategy": "none",
            **self.kafka_properties,
            "logger": CLIENT_LOG,
        }


def from_environment(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings of a service. Raises `ConfigError` with the variable, its value and the
    remedy."""
    if not environ.get("KSTORM_TOPOLOGY"):
        raise ConfigError(
            "KSTORM_TOPOLOGY is not set: name the topology as package.module:attribute, or as a "
            "YAML file"
        )
    settings = with_or_without_topology(environ)
    if settings.state_queries and not settings.state_token and not is_loopback(settings.web_host):
        raise ConfigError(
            "KSTORM_STATE_QUERIES is true, and other machines can reach "
            f"KSTORM_WEB_HOST={settings.web_host}: set KSTORM_STATE_TOKEN_FILE"
        )
    return settings


def with_or_without_topology(environ: Mapping[str, str]) -> Settings:
    """Read settings that may lack a topology. `topology` is "" then. See `from_environment`."""
    values: dict[str, object] = {"topology": ""}
    for name in Settings.__dataclass_fields__:
        variable = f"KSTORM_{name.upper()}"
        text = environ.get(variable)
        if text is not None:
            values[name] = _parse(name, variable, text)
        path = environ.get(f"{variable}_FILE")
        if name in _SECRETS and path is not None:
            found = _parse(
                name, f"{variable}_FILE", secrets.read_secret_file(f"{variable}_FILE", path)
            )
            values[name] = {**values.get(name, {}), **found} if isinstance(found, dict) else found  # type: ignore[dict-item]
    settings = Settings(**values)  # type: ignore[arg-type]
    if settings.stateful_set:
        pod_number(settings.instance, settings.stateful_set)
    return settings


def load_topology(reference: str, properties: str | None = None) -> Topology:
    """Return the topology of `package.module:attribute` or of a YAML file.

    `properties` is the properties file for `${name}` in the YAML. None uses KSTORM_TOPOLOGY_FILTER.
    """
    if is_file(reference):
        # Loading YAML's reader is slow, and few commands and services read such a file.
        from kstorm.flux import load_file

        chosen = os.environ.get("KSTORM_TOPOLOGY_FILTER", "") if properties is None else properties
        return load_file(Path(reference), properties=Path(chosen) if chosen else None)
    found = find(reference, _TOPOLOGY)
    topology = found() if callable(found) else found
    if not isinstance(topology, Topology):
        remedy = "assign it the result of TopologyBuilder.build()"
        if package := installed_before():
            remedy += f", or import kstorm.streamparse before the installed {package}"
        raise TopologyError(
            f"{reference!r} is a {type(topology).__name__}, not a Topology: {remedy}"
        )
    return topology


def _is_topology(module: ModuleType, value: object) -> bool:
    """Return True for a topology, and for a class of streamparse that describes one."""
    return isinstance(value, Topology) or (
        isinstance(value, type)
        and getattr(type(value), "builds_topology", False)
        and value.__module__ == module.__name__
    )


_TOPOLOGY = ExpectedKind("topology", _is_topology)


def _parse(name: str, variable: str, text: str) -> object:
    match name:
        case "web_port" | "replication_factor":
            if not re.fullmatch("[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
                raise ConfigError(
                    f"{variable} is {text!r}: it must be a whole number from 1 to 65535"
                )
            return int(text)
        case "end_partitions":
            if not re.fullmatch("[0-9]{1,5}", text):
                raise ConfigError(
                    f"{variable} is {text!r}: it must be a whole number; 0 creates no source or "
                    "sink topics"
                )
            return int(text)
        case "leave_on_stop" | "state_queries":
            return _one_of(variable, text.lower(), ("true", "false")) == "true"
        case "data_dir":
            return Path(text)
        case "kafka_properties":
            return secrets.parse_properties(variable, text)
        case "zookeeper_auth":
            return secrets.parse_zookeeper_auth(variable, text)
        case "state_token":
            return _token(variable, text)
        case "zookeeper_tls":
            return parse_tls(text)
        case "log_level":
            return _one_of(variable, text.upper(), ("DEBUG", "INFO", "WARNING", "ERROR"))
        case "log_format":
            return _one_of(variable, text, ("json", "console"))
        case _:
            if not text.strip():
                raise ConfigError(f"{variable} is empty: set it or remove it")
            return text


def _token(variable: str, text: str) -> str:
    """Check a token. The error does not quote it."""
    token = text.strip()
    if len(token) < _TOKEN_CHARACTERS or not re.fullmatch("[!-~]+", token):
        raise ConfigError(
            f"{variable}: give a token of at least {_TOKEN_CHARACTERS} ASCII characters without "
            "spaces"
        )
    return token


def _one_of(variable: str, text: str, allowed: tuple[str, ...]) -> str:
    if text not in allowed:
        raise ConfigError(f"{variable} is {text!r}: it must be one of {', '.join(allowed)}")
    return text
