"""Check who can change the nodes that a spout obeys.

With a login, nodes created by kstorm belong to that user only. An older node may be open to all, so
that anyone who can reach ZooKeeper could move offsets or deactivate a topology. So a process with a
login ignores nodes that everyone can change. Without a login, users cannot be distinguished, and
nothing is checked.
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
    """A node is ignored because everyone can change it. The message names the node and the remedy."""

    def __init__(self, auth: str, path: str) -> None:
        user = auth.split(":")[1]
        super().__init__(
            f"lets everyone change {path}, so processes with a login ignore this node: give it to "
            f"the user {user!r} (zkCli.sh, with that login: `setAcl -R {path} auth::cdrwa`), or "
            "delete it while none of its spouts runs"
        )


def check_own(client: KazooClient, auth: str, paths: Iterable[str]) -> None:
    """Raise `OpenToAllError` for a node that everyone can change, and `NoAuthError` for a node of
    another user.

    Missing nodes are skipped.
    """
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
    """Return True if only named users may create children, and this user is not one of them."""
    makers = [entry.id for entry in acl if entry.perms & Permissions.CREATE]
    return bool(makers) and own not in makers and all(maker.scheme in _USERS for maker in makers)


def _identity(auth: str) -> Id:
    """Return a login's ID in ZooKeeper's ACLs."""
    scheme, user, password = auth.split(":", 2)
    return Id(scheme, make_digest_acl_credential(user, password) if scheme == "digest" else user)
