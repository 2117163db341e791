"""A service's settings, from the environment, checked before anything is started."""

import importlib
import json
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kstorm.errors import ConfigError, TopologyError
from kstorm.runtime.log import CLIENT_LOG
from kstorm.topology import Topology


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What one service process needs to know. Every field is read from `KSTORM_` + its name in capitals."""

    topology: str
    """Where the topology is: `package.module:attribute`. The attribute is a `Topology`, or a function that returns one."""

    component: str = ""
    """The spout or bolt that this process runs tasks of; an acker needs none."""

    bootstrap_servers: str = "localhost:9092"
    """Kafka's bootstrap servers, comma-separated."""

    zookeeper: str = "localhost:2181"
    """ZooKeeper's connect string; only spouts that keep offsets there use it."""

    instance: str = field(default_factory=socket.gethostname)
    """A name that is unique among the processes of a component and stays the same when one is restarted (a pod's name).
    A process that comes back under its name within the session timeout takes its tasks back without a rebalance."""

    data_dir: Path = Path(".kstorm/data")
    """Folder for RocksDB; this process's own. What it holds can be rebuilt from changelogs."""

    web_host: str = "0.0.0.0"  # noqa: S104 - probes and Prometheus come from outside the pod
    """Address of `/livez`, `/readyz`, `/metrics` and `/status`."""

    web_port: int = 6066
    """Port of the same."""

    replication_factor: int = 1
    """Replication of the topics that `ensure_topics` creates."""

    log_level: str = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""

    log_format: str = "json"
    """`json`: one object a line; `console`: for people."""

    kafka_properties: Mapping[str, str] = field(default_factory=dict)
    """Further librdkafka properties for every client (TLS, SASL), as a JSON object."""

    def load_topology(self) -> Topology:
        """Imports the topology. Raises `ConfigError` or `TopologyError` naming what is wrong with it."""
        return load_topology(self.topology)

    @property
    def client_config(self) -> dict[str, Any]:
        """The librdkafka properties that all clients of this process share."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "reconnect.backoff.ms": 100,
            "reconnect.backoff.max.ms": 2000,
            "logger": CLIENT_LOG,
            **self.kafka_properties,
        }


def from_environment(environ: Mapping[str, str] = os.environ) -> Settings:
    """Reads the settings; raises `ConfigError` naming the variable, its value and the remedy."""
    if not environ.get("KSTORM_TOPOLOGY"):
        raise ConfigError("KSTORM_TOPOLOGY is not set: name the topology as package.module:attribute")
    values: dict[str, object] = {}
    for name in Settings.__dataclass_fields__:
        variable = f"KSTORM_{name.upper()}"
        text = environ.get(variable)
        if text is not None:
            values[name] = _parse(name, variable, text)
    return Settings(**values)  # type: ignore[arg-type]


def load_topology(reference: str) -> Topology:
    """The topology that `package.module:attribute` names; the current folder is importable."""
    module_name, _, attribute = reference.partition(":")
    if not module_name or not attribute:
        raise ConfigError(f"the topology {reference!r} is not of the form package.module:attribute")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise ConfigError(
                f"the topology {reference!r} needs the module {error.name!r}, which is not installed"
            ) from None
        raise ConfigError(
            f"the topology {reference!r}: there is no module {error.name!r} in {Path.cwd()} or on PYTHONPATH"
        ) from None
    except AttributeError:
        raise ConfigError(f"the topology {reference!r}: the module {module_name} has no {attribute!r}") from None
    topology = found() if callable(found) else found
    if not isinstance(topology, Topology):
        raise TopologyError(
            f"{reference!r} is a {type(topology).__name__}, not a Topology: assign it the result of TopologyBuilder.build()"
        )
    return topology


def _parse(name: str, variable: str, text: str) -> object:
    match name:
        case "web_port" | "replication_factor":
            if not text.isdigit() or not 1 <= int(text) <= 65535:
                raise ConfigError(f"{variable} is {text!r}: it must be a whole number from 1 to 65535")
            return int(text)
        case "data_dir":
            return Path(text)
        case "kafka_properties":
            return _properties(variable, text)
        case "log_level":
            return _one_of(variable, text.upper(), ("DEBUG", "INFO", "WARNING", "ERROR"))
        case "log_format":
            return _one_of(variable, text, ("json", "console"))
        case _:
            if not text.strip():
                raise ConfigError(f"{variable} is empty: set it or remove it")
            return text


def _one_of(variable: str, text: str, allowed: tuple[str, ...]) -> str:
    if text not in allowed:
        raise ConfigError(f"{variable} is {text!r}: it must be one of {', '.join(allowed)}")
    return text


def _properties(variable: str, text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigError(f'{variable} is no JSON object: write e.g. {{"security.protocol": "SSL"}}')
    return {str(key): str(value) for key, value in found.items()}
