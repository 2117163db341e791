"""Run real Apache Kafka and ZooKeeper servers on free loopback ports, for a demo or a test on one
machine.

A server keeps its port and its data over `stop`, `kill` and `restart`, so that clients find the
same broker again. Runs share nothing. Both servers are context managers.
"""

import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kstorm.dev.embedded_server import LOOK_SECS, EmbeddedServer
from kstorm.dev.free_ports import reserve_port
from kstorm.dev.jars import kafka_jars, zookeeper_classpath
from kstorm.dev.kafka_format import format_folder, is_formatted
from kstorm.dev.processes import ManagedProcess
from kstorm.dev.server_settings import (
    BROKER,
    QUICK_START,
    ZOOKEEPER,
    new_cluster_id,
    write_properties,
)
from kstorm.errors import LocalError


class EmbeddedKafka(EmbeddedServer):
    """Apache Kafka: one KRaft node that is broker and controller, on 127.0.0.1.

    `workdir` is the folder for the broker's data and log. `heap` is the heap size of the JVM
    (`-Xmx`). `settings` are broker settings that replace or extend the settings below. With
    `quick_start` Java compiles less: the start takes two thirds of the CPU time, but the broker is
    slower in a long run. Each name in `detours` (capital letters) adds a listener. Its clients
    connect to that `host:port`, and the detour has to lead to `listener_port`.
    `start_timeout` is in seconds. `logins` are the passwords of users, who may log in by
    SCRAM-SHA-512 at listeners with TLS. There is one such listener for each of `certificates`,
    which are PEM files with a key and its certificate. `jars` returns those of another release.
    """

    def __init__(
        self,
        workdir: Path,
        *,
        name: str = "kafka",
        heap: str = "512m",
        settings: Mapping[str, str] | None = None,
        quick_start: bool = False,
        detours: Mapping[str, str] | None = None,
        start_timeout: float = 120.0,
        logins: Mapping[str, str] | None = None,
        certificates: Mapping[str, Path] | None = None,
        jars: Callable[[], Sequence[Path]] = kafka_jars,
    ) -> None:
        super().__init__(name, workdir, heap=heap, start_timeout=start_timeout)
        self._jars = jars
        self._port = reserve_port()
        self._logins = dict(logins or {})
        self._secure = {
            name.upper(): (reserve_port(), file) for name, file in (certificates or {}).items()
        }
        self._controller_port = reserve_port()
        self._cluster_id = new_cluster_id()
        self._settings = dict(settings or {})
        self._java_options = [QUICK_START] if quick_start else []
        self._detours = dict(detours or {})
        self._detour_ports = {name: reserve_port() for name in self._detours}

    @property
    def bootstrap(self) -> str:
        """`host:port`, for the property `bootstrap.servers` of clients."""
        return f"127.0.0.1:{self._port}"

    def secure(self, certificate: str) -> str:
        """The `host:port` of the listener with this certificate: TLS, and a login by SCRAM-SHA-512."""
        return f"127.0.0.1:{self._secure[certificate.upper()][0]}"

    def listener_port(self, detour: str) -> int:
        """The port of the listener for a detour."""
        return self._detour_ports[detour]

    def _prepare(self) -> Sequence[str | Path]:
        jars, settings = self._jars(), self._all_settings()
        classpath = ":".join(str(jar) for jar in jars)
        properties = self.data_directory / "server.properties"
        write_properties(properties, settings)
        folder = self.data_directory / "log"
        if not is_formatted(folder):
            run_tool = partial(self._run_format_tool, classpath, properties)
            if self._logins:  # which only the tool can write
                run_tool()
            else:
                format_folder(folder, self._cluster_id, settings["node.id"], jars, run_tool)
        return [*self._java_options, "-cp", classpath, "kafka.Kafka", properties]

    def _run_format_tool(self, classpath: str, properties: Path) -> None:
        users = [
            f"SCRAM-SHA-512=[name={user},password={password}]"
            for user, password in self._logins.items()
        ]
        command = self._java(
            QUICK_START, "-cp", classpath, "kafka.tools.StorageTool", "format", "-c", properties, "-t", self._cluster_id,
            *(argument for user in users for argument in ("--add-scram", user)),
        )  # fmt: skip
        tool = ManagedProcess(f"{self.name}-format", command, workdir=self._workdir)
        deadline = time.monotonic() + self._start_timeout
        tool.start()
        while tool.alive and time.monotonic() < deadline and not self._abandoned.is_set():
            tool.wait(LOOK_SECS)
        if tool.returncode != 0:
            tool.kill()
            raise LocalError(self._failure("could not format its data directory", tool))

    def _all_settings(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data_directory / "log"),
            **BROKER,
            **self._listeners(),
            **self._settings,
        }

    def _listeners(self) -> dict[str, str]:
        plain = {"CONTROLLER": f"127.0.0.1:{self._controller_port}", "PLAINTEXT": self.bootstrap}
        secure = {name: self.secure(name) for name in self._secure}
        detours = {name: f"127.0.0.1:{port}" for name, port in self._detour_ports.items()}
        kinds = dict.fromkeys([*plain, *detours], "PLAINTEXT") | dict.fromkeys(secure, "SASL_SSL")
        settings = {
            "inter.broker.listener.name": "PLAINTEXT",
            "listeners": _listeners(plain | detours | secure),
            "advertised.listeners": _listeners(plain | self._detours | secure),
            "listener.security.protocol.map": ",".join(
                f"{name}:{kind}" for name, kind in kinds.items()
            ),
        }
        if secure:
            settings["sasl.enabled.mechanisms"] = "SCRAM-SHA-512"
        for name, (_, file) in self._secure.items():
            of = f"listener.name.{name.lower()}"
            settings[f"{of}.ssl.keystore.type"] = "PEM"
            settings[f"{of}.ssl.keystore.location"] = str(file)
            settings[f"{of}.scram-sha-512.sasl.jaas.config"] = (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            )
        return settings

    def _serves(self) -> bool:
        # Until the port is open, a librdkafka client would only wait and log errors.
        if not _accepts_connections(self._port):
            return False
        try:
            return bool(
                AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
                .list_topics(timeout=5)
                .brokers
            )
        except KafkaException:
            return False


class EmbeddedZooKeeper(EmbeddedServer):
    """Apache ZooKeeper: one standalone server on 127.0.0.1, for session timeouts from 1 s to 60 s.

    `workdir` is the folder for the server's data and log. `heap` is the heap size of the JVM
    (`-Xmx`). `tick_ms` is ZooKeeper's `tickTime`; a session lasts at least two ticks.
    `start_timeout` is in seconds. `logins` are the passwords of users, who may log in by SASL's
    DIGEST-MD5. `certificate` is a PEM file with a key and its certificate, for a second port, with
    TLS. `authority` is a PEM file of the authorities that sign clients' certificates; with it,
    clients must present a certificate at that port.
    """

    def __init__(
        self,
        workdir: Path,
        *,
        name: str = "zookeeper",
        heap: str = "128m",
        tick_ms: int = 500,
        start_timeout: float = 120.0,
        logins: Mapping[str, str] | None = None,
        certificate: Path | None = None,
        authority: Path | None = None,
    ) -> None:
        super().__init__(name, workdir, heap=heap, start_timeout=start_timeout)
        self._port, self._secure_port = reserve_port(), reserve_port()
        self._logins = dict(logins or {})
        self._tick_ms = tick_ms
        self._certificate, self._authority = certificate, authority

    @property
    def connect(self) -> str:
        """`host:port`, for the connect string of clients."""
        return f"127.0.0.1:{self._port}"

    @property
    def secure(self) -> str:
        """The `host:port` of the port with TLS."""
        return f"127.0.0.1:{self._secure_port}"

    def _prepare(self) -> Sequence[str | Path]:
        settings = {
            "dataDir": str(self.data_directory / "data"),
            "clientPort": str(self._port),
            "clientPortAddress": "127.0.0.1",
            **ZOOKEEPER,
            **self._tls_settings(),
            "tickTime": str(self._tick_ms),
        }
        properties = self.data_directory / "zoo.cfg"
        write_properties(properties, settings)
        classpath = ":".join(str(jar) for jar in zookeeper_classpath())
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return [QUICK_START, *self._login_options(), "-cp", classpath, main, properties]

    def _tls_settings(self) -> Mapping[str, str]:
        if self._certificate is None:
            return {}
        settings = {
            "secureClientPort": str(self._secure_port),
            "secureClientPortAddress": "127.0.0.1",
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.type": "PEM",
            "ssl.keyStore.location": str(self._certificate),
            "ssl.clientAuth": "none" if self._authority is None else "need",
        }
        if self._authority is not None:
            settings |= {
                "ssl.trustStore.type": "PEM",
                "ssl.trustStore.location": str(self._authority),
            }
        return settings

    def _login_options(self) -> Sequence[str]:
        """Write the logins to a file, and return the options that make the server read it."""
        if not self._logins:
            return ()
        users = [f"user_{user}={json.dumps(password)}" for user, password in self._logins.items()]
        module = "org.apache.zookeeper.server.auth.DigestLoginModule required"
        file = self.data_directory / "jaas.conf"
        file.write_text(f"Server {{ {module} {' '.join(users)}; }};\n")
        provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
        return (
            f"-Djava.security.auth.login.config={file}",
            f"-Dzookeeper.authProvider.1={provider}",
        )

    def _serves(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1) as connection:
                connection.sendall(b"srvr")
                with connection.makefile("rb") as answer:
                    return b"Mode: standalone" in answer.read()
        except OSError:
            return False


def _listeners(addresses: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in addresses.items())


def _accepts_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
