"""`python -m kstorm.dev.server_container kafka|zookeeper`: the entry point of the development images.

It writes the server's settings from the environment into the data folder. It then replaces itself
with the server (`exec`), so signals go directly to the server. The server keeps its data over
restarts, and writes only to the data folder.

- `KSTORM_DATA_DIR` (default `/data`): the data folder.
- `KSTORM_LISTEN_PORT` (default 9092 or 2181): the port for clients.
- `KSTORM_HEAP` (default 512m or 128m): the heap size of the JVM.
- `KSTORM_ADVERTISED_LISTENERS` (default `PLAINTEXT://<host name>:<port>`): the address for Kafka's
  clients.
- `KSTORM_SETTINGS`: server settings that replace or extend kstorm's, one `name=value` per line.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from kstorm.dev.server_settings import (
    BROKER,
    QUICK_START,
    ZOOKEEPER,
    java_options,
    new_cluster_id,
    write_properties,
)
from kstorm.errors import LocalError

_CLASS_PATH: Final = "/opt/jars/*"
_CONTROLLER_PORT: Final = 9093  # not reachable from outside the container


def kafka_settings(environ: Mapping[str, str], data: Path) -> dict[str, str]:
    """Return the settings of one KRaft node, broker and controller. Raises `LocalError` for invalid
    values."""
    port = _port(environ, 9092)
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{_CONTROLLER_PORT}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://:{port},CONTROLLER://127.0.0.1:{_CONTROLLER_PORT}",
        "advertised.listeners": environ.get("KSTORM_ADVERTISED_LISTENERS")
        or f"PLAINTEXT://{socket.gethostname()}:{port}",
        "log.dirs": str(data / "log"),
        **BROKER,
        **_more_settings(environ),
    }


def zookeeper_settings(environ: Mapping[str, str], data: Path) -> dict[str, str]:
    """Return the settings of a standalone server. Raises `LocalError` for invalid values."""
    return {
        "dataDir": str(data / "data"),
        "clientPort": str(_port(environ, 2181)),
        **ZOOKEEPER,
        **_more_settings(environ),
    }


def main() -> None:
    """Become the server that the argument names. On failure print one line and exit with 2."""
    servers: dict[str, Callable[[Mapping[str, str]], list[str]]] = {
        "kafka": _kafka,
        "zookeeper": _zookeeper,
    }
    try:
        command = servers[sys.argv[1]](os.environ)
        os.execvp(command[0], command)  # noqa: S606
    except (LocalError, OSError) as error:
        print(f"kstorm-{sys.argv[1]}: {error}", file=sys.stderr)
        sys.exit(2)


def _kafka(environ: Mapping[str, str]) -> list[str]:
    data = _data_folder(environ, "kafka")
    properties = str(data / "server.properties")
    write_properties(Path(properties), kafka_settings(environ, data))
    java = ["java", *java_options(environ.get("KSTORM_HEAP", "512m")), "-cp", _CLASS_PATH]
    if not (data / "log" / "meta.properties").exists():
        tool = [
            *java,
            QUICK_START,
            "kafka.tools.StorageTool",
            "format",
            "-c",
            properties,
            "-t",
            new_cluster_id(),
        ]
        if subprocess.run(tool, check=False).returncode:
            raise LocalError(
                f"could not format the data folder {data}; the output above contains the reason"
            )
    return [*java, "kafka.Kafka", properties]


def _zookeeper(environ: Mapping[str, str]) -> list[str]:
    data = _data_folder(environ, "zookeeper")
    properties = str(data / "zoo.cfg")
    write_properties(Path(properties), zookeeper_settings(environ, data))
    java = ["java", *java_options(environ.get("KSTORM_HEAP", "128m")), "-cp", _CLASS_PATH]
    return [*java, QUICK_START, "org.apache.zookeeper.server.quorum.QuorumPeerMain", properties]


def _data_folder(environ: Mapping[str, str], server: str) -> Path:
    """Create a subfolder of the volume. A new volume may have a `lost+found`, which Kafka would
    take for a topic."""
    data = Path(environ.get("KSTORM_DATA_DIR", "/data"), server)
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalError(
            f"cannot write to KSTORM_DATA_DIR: {error}; mount a volume there that user {os.getuid()} owns"
        ) from None
    return data


def _port(environ: Mapping[str, str], default: int) -> int:
    text = environ.get("KSTORM_LISTEN_PORT", str(default))
    if not text.isdecimal() or not 0 < int(text) < 65536 or int(text) == _CONTROLLER_PORT:
        raise LocalError(
            f"KSTORM_LISTEN_PORT is {text!r}; give a port from 1 to 65535 other than {_CONTROLLER_PORT}"
        )
    return int(text)


def _more_settings(environ: Mapping[str, str]) -> dict[str, str]:
    lines = [line.strip() for line in environ.get("KSTORM_SETTINGS", "").splitlines()]
    settings = {}
    for line in lines:
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise LocalError(f"KSTORM_SETTINGS has the line {line!r}; give name=value")
        settings[name.strip()] = value.strip()
    return settings


if __name__ == "__main__":
    main()
