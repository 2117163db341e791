"""How every client of ZooKeeper here is made, and what it says when ZooKeeper does not let it.

A login is `digest:user:password` or `sasl:user:password`. By the first the client says who it is, and whatever it says is
true: a user is a name and a password, and owns what was made under both. By the second, SASL's DIGEST-MD5, the server knows
its users and refuses others; kazoo's client ends then, so whoever has it must start it again.

TLS is the process's for every ZooKeeper that it speaks to: `kstorm.runtime.zookeeper.tls`.
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
from kazoo.protocol.states import KeeperState
from kazoo.security import CREATOR_ALL_ACL

from kstorm.errors import BrokerError, ConfigError
from kstorm.runtime.zookeeper.obstacles import obstacle
from kstorm.runtime.zookeeper.tls import ZooKeeperTls

NOT_NOW: Final = (ConnectionLoss, ConnectionClosedError, SessionExpiredError, AuthFailedError)
"""What to try again when ZooKeeper is there again."""
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
    """A client that is not started yet. `timeout` is the session's, in seconds; `auth` a login, or empty; without `tls` it has
    none. Raises `ConfigError` on a malformed connect string, which is `whose`."""
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
    logging.getLogger("kazoo.client").setLevel(
        logging.INFO
    )  # what it says below that has the login
    try:
        return KazooClient(
            connect,
            timeout,
            default_acl=CREATOR_ALL_ACL if auth else None,
            **options,
        )
    except (ValueError, KazooException) as error:
        raise ConfigError(
            f"{whose} connect string {connect!r} is malformed ({error}): give host:port,…"
        ) from None


class _TlsHandler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo has no types
    """Connects with TLS. By itself kazoo would trust all whom the system trusts beside `ca`, and check no name."""

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
        """What kazoo speaks by. Raises nothing but `OSError`, after which kazoo tries again; another error ends its thread."""
        try:
            return self._tls.connect(address, hostname, timeout)
        except ConfigError as error:
            raise OSError(str(error)) from None

    def select(self, readers: Iterable[Any], *others: Any, **more: Any) -> Any:
        """As `select.select`; what TLS has already taken from the socket can be read as well."""
        readers = list(readers)
        ready = [each for each in readers if isinstance(each, ssl.SSLSocket) and each.pending()]
        return (ready, [], []) if ready else super().select(readers, *others, **more)


def not_allowed(auth: str, path: str) -> str:
    """That the login may not do what was asked at `path`, and what to do about it."""
    return (
        f"{_who(auth)} may not use {path}: give KSTORM_ZOOKEEPER_AUTH the user and password with which that node, or the one "
        "above it, was made"
    )


def is_ended(client: KazooClient) -> bool:
    """Whether kazoo has ended its client, as it does where a login is refused: it must be started again."""
    return bool(client.client_state == KeeperState.AUTH_FAILED)


def not_let_in(auth: str) -> str:
    """That the server does not know the login, and what to do about it."""
    return f"{_who(auth)} is not let in: check the user and the password in KSTORM_ZOOKEEPER_AUTH"


def _who(auth: str) -> str:
    return f"the user {auth.split(':')[1]!r}" if auth else "a client without a login"


@contextmanager
def open_client(connect: str, auth: str, tls: ZooKeeperTls | None = None) -> Iterator[KazooClient]:
    """A client for a command. Raises `BrokerError` if ZooKeeper cannot be reached within 10 s, or does not let it in."""
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
    """Waits until a client has a session. Raises `KazooTimeoutError` if it has none after so many seconds, and `BrokerError` sooner
    if it is known why."""
    live = client.start_async()
    if live.wait(_LOOK_WHY_SECS):
        return
    if why := obstacle(connect, tls, _WHY_SECS):
        raise BrokerError(f"ZooKeeper at {connect} cannot be used: {why}")
    if not live.wait(timeout):
        raise KazooTimeoutError("no session in time")


def _connect(client: KazooClient, connect: str, auth: str, tls: ZooKeeperTls | None) -> None:
    try:
        start_client(client, connect, tls, _CONNECT_SECS)
        client.exists("/")  # whether a login is refused shows with the first request
    except KazooTimeoutError:
        raise BrokerError(
            f"ZooKeeper at {connect} cannot be reached: is it running, and is KSTORM_ZOOKEEPER right?"
        ) from None
    except (AuthFailedError, ConnectionClosedError):
        raise BrokerError(f"ZooKeeper at {connect} refuses: {not_let_in(auth)}") from None
    except NoAuthError:
        _, _, chroot = connect.partition("/")
        raise BrokerError(f"ZooKeeper refuses: {not_allowed(auth, f'/{chroot}')}") from None


@contextmanager
def told_errors(auth: str, where: str) -> Iterator[None]:
    """Turns what ZooKeeper refuses at the nodes `where` into a `BrokerError`."""
    try:
        yield
    except NoAuthError:
        raise BrokerError(f"ZooKeeper refuses: {not_allowed(auth, where)}") from None
    except KazooException as error:
        raise BrokerError(f"ZooKeeper did not do what was asked at {where}: {error!r}") from None
