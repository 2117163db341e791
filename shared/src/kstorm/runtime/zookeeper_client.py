"""How every client of ZooKeeper here is made, and what it says when ZooKeeper does not let it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, KazooException, NoAuthError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import CREATOR_ALL_ACL

from kstorm.errors import BrokerError, ConfigError

NOT_NOW: Final = (ConnectionLoss, ConnectionClosedError, SessionExpiredError)
"""What to try again when ZooKeeper is there again."""
_SESSION_SECS: Final = 10.0
_CONNECT_SECS: Final = 10.0


def make_client(connect: str, timeout: float, auth: str, **options: Any) -> KazooClient:
    """A client that is not started yet. `timeout` is the session's, in seconds; `auth` a login, `scheme:user:password`,
    or empty. Raises `ConfigError` on a malformed connect string."""
    scheme, _, login = auth.partition(":")
    logging.getLogger("kazoo.client").setLevel(logging.INFO)  # what it says below that has the login
    try:
        return KazooClient(
            connect,
            timeout,
            auth_data=[(scheme, login)] if auth else None,
            default_acl=CREATOR_ALL_ACL if auth else None,
            **options,
        )
    except (ValueError, KazooException) as error:
        raise ConfigError(f"ZooKeeper's connect string {connect!r} is malformed ({error}): give host:port,…") from None


def not_allowed(auth: str, path: str) -> str:
    """That the login may not do what was asked at `path`, and what to do about it."""
    user = auth.split(":")[1] if auth else ""
    return (
        f"{f'the user {user!r}' if user else 'a client without a login'} may not use {path}: give KSTORM_ZOOKEEPER_AUTH "
        "the user and password with which that node, or the one above it, was made"
    )


@contextmanager
def open_client(connect: str, auth: str) -> Iterator[KazooClient]:
    """A client for a command. Raises `BrokerError` if ZooKeeper cannot be reached within 10 s, or does not let it in."""
    client = make_client(connect, _SESSION_SECS, auth)
    _, _, chroot = connect.partition("/")
    try:
        with told_errors(auth, f"/{chroot}"):
            client.start(_CONNECT_SECS)
    except KazooTimeoutError:
        client.close()
        raise BrokerError(
            f"ZooKeeper at {connect} cannot be reached: is it running, and is KSTORM_ZOOKEEPER right?"
        ) from None
    try:
        yield client
    finally:
        client.stop()
        client.close()


@contextmanager
def told_errors(auth: str, where: str) -> Iterator[None]:
    """Turns what ZooKeeper refuses at the nodes `where` into a `BrokerError`."""
    try:
        yield
    except NoAuthError:
        raise BrokerError(f"ZooKeeper refuses: {not_allowed(auth, where)}") from None
    except KazooException as error:
        raise BrokerError(f"ZooKeeper did not do what was asked at {where}: {error!r}") from None
