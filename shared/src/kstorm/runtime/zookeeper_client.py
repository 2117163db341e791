"""How every client of ZooKeeper here is made, and what it says when ZooKeeper does not let it.

A login is `digest:user:password` or `sasl:user:password`. By the first the client says who it is, and whatever it says is
true: a user is a name and a password, and owns what was made under both. By the second, SASL's DIGEST-MD5, the server knows
its users and refuses others; kazoo's client ends then, so whoever has it must start it again.
"""

import logging
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.security import CREATOR_ALL_ACL

from kstorm.errors import ConfigError


def make_client(connect: str, timeout: float, auth: str, **options: Any) -> KazooClient:
    """A client that is not started yet. `timeout` is the session's, in seconds; `auth` a login, or empty. Raises
    `ConfigError` on a malformed connect string."""
    scheme, _, login = auth.partition(":")
    user, _, password = login.partition(":")
    if scheme == "sasl":
        options["sasl_options"] = {"mechanism": "DIGEST-MD5", "username": user, "password": password}
    elif auth:
        options["auth_data"] = [(scheme, login)]
    logging.getLogger("kazoo.client").setLevel(logging.INFO)  # what it says below that has the login
    try:
        return KazooClient(
            connect,
            timeout,
            default_acl=CREATOR_ALL_ACL if auth else None,
            **options,
        )
    except (ValueError, KazooException) as error:
        raise ConfigError(f"ZooKeeper's connect string {connect!r} is malformed ({error}): give host:port,…") from None


def not_allowed(auth: str, path: str) -> str:
    """That the login may not do what was asked at `path`, and what to do about it."""
    return (
        f"{_who(auth)} may not use {path}: give KSTORM_ZOOKEEPER_AUTH the user and password with which that node, or the one "
        "above it, was made"
    )


def not_let_in(auth: str) -> str:
    """That the server does not know the login, and what to do about it."""
    return f"{_who(auth)} is not let in: check the user and the password in KSTORM_ZOOKEEPER_AUTH"


def _who(auth: str) -> str:
    return f"the user {auth.split(':')[1]!r}" if auth else "a client without a login"
