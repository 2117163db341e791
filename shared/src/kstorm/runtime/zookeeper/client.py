"""Create ZooKeeper clients, and explain why ZooKeeper refuses them.

A login is `digest:user:password` or `sasl:user:password`. With `digest`, ZooKeeper accepts any name
and password. A user is the combination of both, and owns the nodes created with it. With `sasl`
(DIGEST-MD5), the server knows its users and rejects others. kazoo's client then stops and must be
started again.

TLS is configured once per process, for all of its ZooKeeper connections:
`kstorm.runtime.base.zookeeper_tls`.
"""

import logging
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.hosts import collect_hosts
from kazoo.protocol.states import KeeperState
from kazoo.security import CREATOR_ALL_ACL

from kstorm.errors import BrokerError, ConfigError
from kstorm.runtime.base.reachable import why_unreachable
from kstorm.runtime.base.zookeeper_tls import ZooKeeperTls
from kstorm.runtime.zookeeper.connection_problems import connection_problem

NOT_NOW: Final = (ConnectionLoss, ConnectionClosedError, SessionExpiredError, AuthFailedError)
"""Errors to retry when ZooKeeper is available again."""
_SESSION_SECS: Final = 10.0
_CONNECT_SECS: Final = 10.0
_LOOK_WHY_SECS: Final = 1.0
_WHY_SECS: Final = 5.0


def make_client(
    connect: str,
    timeout: float,
    auth: str,
    tls: ZooKeeperTls | None = None,
    *,
    whose: str = "ZooKeeper's",
    **options: Any,
) -> KazooClient:
    """Create a client without starting it. Raises `ConfigError` for a malformed connect string.

    `timeout` is the session timeout in seconds. `auth` is a login or "". Without `tls` the
    connection is not encrypted. `whose` names the connect string's owner in the error.
    """
    if tls is not None:
        options["handler"] = _TlsHandler(tls)
    scheme, _, login = auth.partition(":")
    user, _, password = login.partition(":")
    if scheme == "sasl":
        options["sasl_options"] = {
            "mechanism": "DIGEST-MD5",
            "username": user,
            "password": password,
        }
    elif auth:
        options["auth_data"] = [(scheme, login)]
    # Messages below this level would contain the login.
    logging.getLogger("kazoo.client").setLevel(logging.INFO)
    try:
        return KazooClient(
            connect, timeout, default_acl=CREATOR_ALL_ACL if auth else None, **options
        )
    except (ValueError, KazooException) as error:
        raise ConfigError(
            f"{whose} connect string {connect!r} is malformed ({error}): give host:port,…"
        ) from None


class _TlsHandler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo has no types
    """Connects with TLS. kazoo's own code would trust the system's CAs in addition to `ca`, and
    would not check host names."""

    def __init__(self, tls: ZooKeeperTls) -> None:
        super().__init__()
        self._tls = tls

    def create_connection(
        self,
        address: tuple[str, int],
        hostname: str | None = None,
        timeout: float | None = None,
        **_: Any,
    ) -> ssl.SSLSocket:
        # kazoo retries after an `OSError`. Any other error would end its thread.
        try:
            return self._tls.connect(address, hostname, timeout)
        except ConfigError as error:
            raise OSError(str(error)) from None

    def select(self, readers: Iterable[Any], *others: Any, **more: Any) -> Any:
        # Data that TLS has already read from the socket is also ready.
        readers = list(readers)
        ready = [each for each in readers if isinstance(each, ssl.SSLSocket) and each.pending()]
        return (ready, [], []) if ready else super().select(readers, *others, **more)


def permission_error(auth: str, path: str) -> str:
    """Explain that the login has no permission at `path`, with the remedy."""
    return (
        f"{_who(auth)} may not use {path}: set KSTORM_ZOOKEEPER_AUTH to the user and password "
        "that created this node or its parent"
    )


def is_ended(client: KazooClient) -> bool:
    """Return True if kazoo has stopped its client, as after a rejected login. It must be started
    again."""
    return bool(client.client_state == KeeperState.AUTH_FAILED)


def login_error(auth: str) -> str:
    """Explain that the server rejects the login, with the remedy."""
    return f"{_who(auth)} has no access: check the user and the password in KSTORM_ZOOKEEPER_AUTH"


def _who(auth: str) -> str:
    return f"the user {auth.split(':')[1]!r}" if auth else "a client without a login"


@contextmanager
def open_client(connect: str, auth: str, tls: ZooKeeperTls | None = None) -> Iterator[KazooClient]:
    """Open a client for a command. Raises `BrokerError` if ZooKeeper cannot be reached within 10 s
    or rejects the login."""
    client = make_client(connect, _SESSION_SECS, auth, tls)
    try:
        _connect(client, connect, auth, tls)
        yield client
    finally:
        client.stop()
        client.close()


def start_client(
    client: KazooClient, connect: str, tls: ZooKeeperTls | None, timeout: float
) -> None:
    """Wait until a client has a session.

    Raises `KazooTimeoutError` if it takes longer than `timeout` seconds, and `BrokerError` earlier
    if the reason is known.
    """
    live = client.start_async()
    if live.wait(_LOOK_WHY_SECS):
        return
    if why := connection_problem(connect, tls, _WHY_SECS):
        raise BrokerError(f"ZooKeeper at {connect} cannot be used: {why}")
    if not live.wait(timeout):
        raise KazooTimeoutError("no session in time")


def _connect(client: KazooClient, connect: str, auth: str, tls: ZooKeeperTls | None) -> None:
    servers, _ = collect_hosts(connect)
    if why := why_unreachable(servers):
        raise BrokerError(_away(connect, f" ({why})"))
    try:
        start_client(client, connect, tls, _CONNECT_SECS)
        # A rejected login is only noticed at the first request.
        client.exists("/")
    except KazooTimeoutError:
        raise BrokerError(_away(connect)) from None
    except (AuthFailedError, ConnectionClosedError):
        raise BrokerError(f"ZooKeeper at {connect} refuses: {login_error(auth)}") from None
    except NoAuthError:
        _, _, chroot = connect.partition("/")
        raise BrokerError(f"ZooKeeper refuses: {permission_error(auth, f'/{chroot}')}") from None


def _away(connect: str, why: str = "") -> str:
    return (
        f"ZooKeeper at {connect} cannot be reached{why}: is it running, and is KSTORM_ZOOKEEPER or "
        "--zookeeper right?"
    )


@contextmanager
def broker_errors(auth: str, where: str) -> Iterator[None]:
    """Convert ZooKeeper's errors at the nodes `where` to `BrokerError`."""
    try:
        yield
    except NoAuthError:
        raise BrokerError(f"ZooKeeper refuses: {permission_error(auth, where)}") from None
    except KazooException as error:
        raise BrokerError(f"ZooKeeper did not complete the request at {where}: {error!r}") from None
