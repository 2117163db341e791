"""A ZooKeeper client. Only this module of the pipeline needs kazoo."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler

if TYPE_CHECKING:
    from kstorm_pipeline.zookeeper_tls import ZooKeeperTls


class Handler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo has no types
    """Connects with TLS if configured. Remembers why it failed: kazoo itself only retries."""

    def __init__(self, tls: ZooKeeperTls | None) -> None:
        super().__init__()
        self._context = None if tls is None else tls.context()
        self.problem = ""
        """Reason for the last failure to connect. Empty if there was none or it is unknown."""

    def create_connection(
        self,
        address: tuple[str, int],
        hostname: str | None = None,
        timeout: float | None = None,
        **_: Any,
    ) -> socket.socket:
        self.problem = ""
        try:
            plain = socket.create_connection(address, timeout)
            if self._context is None:
                return plain
            # Wrapping detaches `plain`, so leaving the block closes it only if wrapping fails.
            with plain:
                return self._context.wrap_socket(plain, server_hostname=hostname or address[0])
        except ssl.SSLCertVerificationError as error:
            self.problem = f"its certificate is not trusted: {error.verify_message}"
            raise
        except OSError as error:
            self.problem = str(error.strerror or error)
            raise


def make_client(
    hosts: str, seconds: float, tls: ZooKeeperTls | None
) -> tuple[KazooClient, Handler]:
    """Return a client that is not started yet, and the handler that stores the reason if it cannot
    connect."""
    handler = Handler(tls)
    return KazooClient(hosts, timeout=seconds, handler=handler), handler
