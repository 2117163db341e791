"""A service's settings, from the environment, checked before anything is started."""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kstorm.errors import ConfigError, TopologyError
from kstorm.flux import load_file
from kstorm.references import Kind, find, is_file
from kstorm.runtime.own_machine import is_own
from kstorm.runtime.service import secrets
from kstorm.runtime.service.log import CLIENT_LOG
from kstorm.runtime.service.scale import number_of
from kstorm.runtime.zookeeper.tls import ZooKeeperTls, parse_tls
from kstorm.topology import Topology

_SECRETS = ("kafka_properties", "zookeeper_auth", "state_token")  # may be given by file
_TOKEN_CHARACTERS = 16


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What one service process needs to know. Every field is read from `KSTORM_` + its name in capitals."""

    topology: str
    """Where the topology is: `package.module:attribute`, whose attribute is a `Topology`, or a function that returns one; or the
    path of a YAML file (docs/flux.md)."""

    topology_filter: str = ""
    """A file of properties for what is `${name}` in a topology's YAML file. Empty: there is none."""

    component: str = ""
    """The spout or bolt that this process runs tasks of; an acker needs none."""

    topology_id: str = ""
    """Id of this deployment of the topology, such as `wordcount-1-1489642910`: the same for all its processes, and for one
    that is restarted; another for another deployment (say, the revision of a Helm release). It is stored with the
    offsets, and `SpoutConfig.ignore_zk_offsets` needs it. Empty: there is none."""

    release: str = ""
    """The installation that this process belongs to, such as `namespace/release` of Helm: the same over upgrades. `kstorm prepare`
    refuses a second one that would take the first one's tasks. Empty: it is not known."""

    bootstrap_servers: str = "localhost:9092"
    """Kafka's bootstrap servers, comma-separated."""

    zookeeper: str = "localhost:2181"
    """ZooKeeper's connect string. Spouts keep offsets there, and hear there that their topology was deactivated; those that
    keep none do without it as well."""

    instance: str = field(default_factory=socket.gethostname)
    """A name that is unique among the processes of a component and stays the same when one is restarted (a pod's name).
    A process that comes back under its name within the session timeout takes its tasks back without a rebalance."""

    leave_on_stop: bool = False
    """Whether a process that is told to stop gives up its place in the group, so that others have its tasks after about a
    second. Say `true` where none comes back under its name (pods of a Deployment). Else they wait for it, for the session
    timeout."""

    stateful_set: str = ""
    """The StatefulSet that `instance` is a pod of, if Kubernetes may be asked for its scale: a pod that is scaled away then
    gives up its place as well, and one that comes back does not. Empty: nobody is asked."""

    data_dir: Path = Path(".kstorm/data")
    """Folder for RocksDB; this process's own. What it holds can be rebuilt from changelogs."""

    web_host: str = "0.0.0.0"  # noqa: S104 - probes and Prometheus come from outside the pod
    """Address of `/livez`, `/readyz`, `/metrics` and `/status`."""

    web_port: int = 6066
    """Port of the same."""

    state_queries: bool = False
    """Whether `/state` tells what stateful bolts keep. Where others than this machine reach it, `state_token` is needed too."""

    state_token: str = field(default="", repr=False)
    """What those who ask for the state have to give, 16 characters or more, or in the file that `KSTORM_STATE_TOKEN_FILE` names.
    Empty: nothing, and this machine alone is answered."""

    replication_factor: int = 1
    """Replication of the topics that `ensure_topics` creates."""

    end_partitions: int = 0
    """Partitions of source and sink topics that are missing, and that the process then makes: for a Kafka that is part of the
    topology's release, where nobody else does. 0: they are somebody else's."""

    log_level: str = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""

    log_format: str = "json"
    """`json`: one object a line; `console`: for people."""

    kafka_properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further librdkafka properties for every client (TLS, SASL), as a JSON object. Those of the file that
    `KSTORM_KAFKA_PROPERTIES_FILE` names are added to these, and win."""

    zookeeper_auth: str = field(default="", repr=False)
    """Login for ZooKeeper, `digest:user:password` or `sasl:user:password` (SASL's DIGEST-MD5), or in the file that
    `KSTORM_ZOOKEEPER_AUTH_FILE` names. With it, what is created there is for this user alone; empty: no login, and what is
    created is open to all."""

    zookeeper_tls: ZooKeeperTls | None = None
    """TLS to every ZooKeeper that this process speaks to, as a JSON object with the names of `ZooKeeperTls`:
    `{"ca": "/etc/zookeeper/ca.crt"}`. Not set: none."""

    def load_topology(self) -> Topology:
        """Imports the topology. Raises `ConfigError` or `TopologyError` naming what is wrong with it."""
        return load_topology(self.topology, self.topology_filter)

    def component_of(self, topology: Topology, kind: Literal["spout", "bolt"]) -> str:
        """The component that this process runs; raises `ConfigError` if `KSTORM_COMPONENT` names none of that kind."""
        ids = [spec.id for spec in topology.components.values() if spec.kind == kind]
        if self.component not in ids:
            names = ", ".join(map(repr, ids))
            raise ConfigError(
                f"KSTORM_COMPONENT is {self.component!r}: the {kind}s of {topology.name!r} are {names}"
            )
        return self.component

    @property
    def client_config(self) -> dict[str, Any]:
        """The librdkafka properties that all clients of this process share."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "reconnect.backoff.ms": 100,
            "reconnect.backoff.max.ms": 2000,
            # Else a client forgets all brokers when their connections break, and may wait for ever for one that it has forgotten.
            "metadata.recovery.strategy": "none",
            **self.kafka_properties,
            "logger": CLIENT_LOG,
        }


def from_environment(environ: Mapping[str, str] = os.environ) -> Settings:
    """Reads the settings of a service; raises `ConfigError` naming the variable, its value and the remedy."""
    if not environ.get("KSTORM_TOPOLOGY"):
        raise ConfigError(
            "KSTORM_TOPOLOGY is not set: name the topology as package.module:attribute, or as a YAML file"
        )
    settings = with_or_without_topology(environ)
    if settings.state_queries and not settings.state_token and not is_own(settings.web_host):
        raise ConfigError(
            f"KSTORM_STATE_QUERIES is true, and others reach KSTORM_WEB_HOST={settings.web_host}: set KSTORM_STATE_TOKEN_FILE"
        )
    return settings


def with_or_without_topology(environ: Mapping[str, str]) -> Settings:
    """As `from_environment`, for what may need no topology; then `topology` is empty."""
    values: dict[str, object] = {"topology": ""}
    for name in Settings.__dataclass_fields__:
        variable = f"KSTORM_{name.upper()}"
        text = environ.get(variable)
        if text is not None:
            values[name] = _parse(name, variable, text)
        path = environ.get(f"{variable}_FILE")
        if name in _SECRETS and path is not None:
            found = _parse(name, f"{variable}_FILE", secrets.read_file(f"{variable}_FILE", path))
            values[name] = {**values.get(name, {}), **found} if isinstance(found, dict) else found  # type: ignore[dict-item]
    settings = Settings(**values)  # type: ignore[arg-type]
    if settings.stateful_set:
        number_of(settings.instance, settings.stateful_set)
    return settings


def load_topology(reference: str, properties: str | None = None) -> Topology:
    """The topology that `package.module:attribute` or the path of a YAML file names.

    `properties` is the file for what is `${name}` in the YAML; None stands for what KSTORM_TOPOLOGY_FILTER says."""
    if is_file(reference):
        chosen = os.environ.get("KSTORM_TOPOLOGY_FILTER", "") if properties is None else properties
        return load_file(Path(reference), properties=Path(chosen) if chosen else None)
    found = find(reference, _TOPOLOGY)
    topology = found() if callable(found) else found
    if not isinstance(topology, Topology):
        raise TopologyError(
            f"{reference!r} is a {type(topology).__name__}, not a Topology: assign it the result of TopologyBuilder.build()"
        )
    return topology


_TOPOLOGY = Kind("topology", lambda _, value: isinstance(value, Topology))


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
                    f"{variable} is {text!r}: it must be a whole number, 0 to make no source or sink topics"
                )
            return int(text)
        case "leave_on_stop" | "state_queries":
            return _one_of(variable, text.lower(), ("true", "false")) == "true"
        case "data_dir":
            return Path(text)
        case "kafka_properties":
            return secrets.properties(variable, text)
        case "zookeeper_auth":
            return secrets.zookeeper_auth(variable, text)
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
    """Is never quoted."""
    token = text.strip()
    if len(token) < _TOKEN_CHARACTERS or not re.fullmatch("[!-~]+", token):
        raise ConfigError(
            f"{variable}: give a token of {_TOKEN_CHARACTERS} characters or more, ASCII without spaces"
        )
    return token


def _one_of(variable: str, text: str, allowed: tuple[str, ...]) -> str:
    if text not in allowed:
        raise ConfigError(f"{variable} is {text!r}: it must be one of {', '.join(allowed)}")
    return text
