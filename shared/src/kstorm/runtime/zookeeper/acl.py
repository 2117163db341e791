"""Who may change what a spout obeys.

With a login, what kstorm makes in ZooKeeper is for that user alone. A node that was there before may be open to all: then any
stranger who reaches ZooKeeper could move offsets or silence a topology. So a process with a login obeys no node that everybody may
change. Without a login nobody can be told from anybody, and nothing is looked at.
"""

from collections.abc import Iterable
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.security import ACL, Id, Permissions, make_digest_acl_credential

_CHANGES: Final = Permissions.WRITE | Permissions.CREATE | Permissions.DELETE | Permissions.ADMIN
_USERS: Final = ("digest", "sasl")
_EVERYBODY: Final = Id("world", "anyone")


class OpenToAllError(KazooException):  # type: ignore[misc] # kazoo has no types
    """A node that is not obeyed, since everybody may change it. Says which, and what to do."""

    def __init__(self, auth: str, path: str) -> None:
        user = auth.split(":")[1]
        super().__init__(
            f"lets everybody change {path}, which is not obeyed with a login: give it to the user {user!r} (zkCli.sh, with that "
            f"login: `setAcl -R {path} auth::cdrwa`), or delete it while no spout of it runs"
        )


def check_own(client: KazooClient, auth: str, paths: Iterable[str]) -> None:
    """Raises `OpenToAllError` for a node that everybody may change, and `NoAuthError` for one that is another user's. A node
    that is not there is not to blame."""
    for path in paths if auth else ():
        try:
            acl, _ = client.get_acls(path)
        except NoNodeError:
            continue
        if any(entry.id == _EVERYBODY and entry.perms & _CHANGES for entry in acl):
            raise OpenToAllError(auth, path)
        if _is_others(acl, _identity(auth)):
            raise NoAuthError


def _is_others(acl: Iterable[ACL], own: Id) -> bool:
    """Whether all who may make nodes below are users by name, and this one is none of them."""
    makers = [entry.id for entry in acl if entry.perms & Permissions.CREATE]
    return bool(makers) and own not in makers and all(maker.scheme in _USERS for maker in makers)


def _identity(auth: str) -> Id:
    """How ZooKeeper calls a login in its lists."""
    scheme, user, password = auth.split(":", 2)
    return Id(scheme, make_digest_acl_credential(user, password) if scheme == "digest" else user)
