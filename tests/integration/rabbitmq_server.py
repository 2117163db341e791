"""Debian's `rabbitmq-server` on free ports of 127.0.0.1.

Its data, cookie and epmd have their own folder.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import pika

from kstorm.dev.free_ports import reserve_port
from kstorm.dev.processes import ManagedProcess
from kstorm.errors import LocalError

_SCRIPTS: Final = Path("/usr/lib/rabbitmq/bin")  # the scripts in /usr/sbin change the user
_START_SECS: Final = 120.0
_HOW_TO: Final = "install Debian's package: apt-get install rabbitmq-server"


def find_scripts() -> Path | str:
    """Return the folder of RabbitMQ's scripts, which are installed first if this user may.

    If there are none, return the reason and the remedy.
    """
    if (_SCRIPTS / "rabbitmq-server").exists():
        return _SCRIPTS
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return f"there is no {_SCRIPTS}/rabbitmq-server, and this user cannot install it: {_HOW_TO}"
    # In run level 1 the package does not start its own server.
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (
        ["update", "-q"],
        ["install", "-q", "-y", "--no-install-recommends", "rabbitmq-server"],
    ):
        try:
            subprocess.run(
                ["apt-get", *command],
                env=environment,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=120,
                check=True,
            )
        except subprocess.SubprocessError as error:
            return f"apt-get {command[0]} failed ({error}): {_HOW_TO}"
    return _SCRIPTS


class RabbitMQServer:
    """One node. It keeps its ports and its data over `stop`, `kill` and `start`.

    A `certificate` enables TLS. It is a PEM file with the key, and the file of the signing
    authority.
    """

    def __init__(
        self, scripts: Path, workdir: Path, certificate: tuple[Path, Path] | None = None
    ) -> None:
        self.port, self.tls_port = reserve_port(), reserve_port()
        self._home = workdir / "rabbitmq"
        self._home.mkdir(parents=True)
        epmd_port = reserve_port()
        self._scripts = scripts
        self._environment = environment = {
            "HOME": str(self._home),  # for the cookie
            "ERL_EPMD_PORT": str(epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"kstorm-{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(reserve_port()),
            "RABBITMQ_CONFIG_FILE": str(self._home / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(self._home / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._home / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self._home / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self._home / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_GENERATED_CONFIG_DIR": str(self._home / "generated"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2",
        }
        (self._home / "enabled_plugins").write_text("[].\n")
        (self._home / "rabbitmq.conf").write_text("\n".join(self._settings(certificate)) + "\n")
        # It runs in the foreground. A process that the node starts itself would outlive it.
        self._epmd = ManagedProcess(
            "epmd", ["epmd", "-port", str(epmd_port)], workdir=workdir, environment=environment
        )
        self._node = ManagedProcess(
            "rabbitmq", [scripts / "rabbitmq-server"], workdir=workdir, environment=environment
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start the node and wait until a login succeeds."""
        if not self._epmd.alive:
            self._epmd.start()
        self._node.start()
        deadline = time.monotonic() + _START_SECS
        while not self._serves():
            if not self._node.alive or time.monotonic() > deadline:
                self.close()
                raise LocalError(
                    f"RabbitMQ does not start; its log ends with:\n{self._node.log_tail(30)}"
                )
            time.sleep(0.1)
        return self

    def stop(self) -> None:
        """Stop the node with SIGTERM. It can be started again."""
        self._node.stop(30)

    def kill(self) -> None:
        """Kill the node after the definitions of its queues are on disk. It can be started again.

        Mnesia stores them, but responds earlier. Without the wait, a queue of the last second would
        be lost.
        """
        control: list[str | Path] = [self._scripts / "rabbitmqctl", "eval", "mnesia:sync_log()."]
        subprocess.run(
            control,
            env=os.environ | self._environment,
            check=True,
            capture_output=True,
            timeout=_START_SECS,
        )
        self._node.kill()

    def pause(self) -> None:
        """Pause the node: its connections stay open, without traffic."""
        self._node.pause()

    def resume(self) -> None:
        self._node.resume()

    def close(self) -> None:
        """End the node and its epmd."""
        self.stop()
        self._epmd.stop()

    def declare(self, queue: str) -> None:
        """Create a durable queue."""
        with self.channel() as channel:
            channel.queue_declare(queue, durable=True)

    def delete(self, queue: str) -> None:
        """Delete a queue with its messages."""
        with self.channel() as channel:
            channel.queue_delete(queue)

    def publish(self, queue: str, *bodies: bytes) -> None:
        """Write persistent messages, and wait for their confirmation."""
        with self.channel() as channel:
            channel.confirm_delivery()
            for body in bodies:
                channel.basic_publish(
                    "", queue, body, pika.BasicProperties(delivery_mode=2), mandatory=True
                )

    def ready(self, queue: str) -> int:
        """Return the number of messages that no consumer has open."""
        with self.channel() as channel:
            count: int = channel.queue_declare(queue, passive=True).method.message_count
            return count

    @contextmanager
    def channel(self) -> Iterator[Any]:
        """Open a channel on a new connection."""
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port))
        try:
            yield connection.channel()
        finally:
            connection.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _settings(self, certificate: tuple[Path, Path] | None) -> Sequence[str]:
        settings = [
            f"listeners.tcp.1 = 127.0.0.1:{self.port}",
            "vm_memory_high_watermark.absolute = 512MB",
        ]
        settings.append("disk_free_limit.absolute = 1MB")
        if certificate is not None:
            file, authority = certificate
            settings += [
                f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}",
                f"ssl_options.cacertfile = {authority}",
                f"ssl_options.certfile = {file}",
                f"ssl_options.keyfile = {file}",
                "ssl_options.verify = verify_peer",
                "ssl_options.fail_if_no_peer_cert = false",
            ]
        return settings

    def _serves(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            with self.channel():
                return True
        except (OSError, pika.exceptions.AMQPError):
            return False
