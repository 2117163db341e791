"""TLS towards ZooKeeper: whom a client trusts, and by what it shows who it is.

The rules: **a server's certificate is always checked**, and against `ca` alone where that is given; and **files are read for each
connection**, so that certificates which are renewed need no restart. Nothing here needs kazoo, which bolts do without.
"""

import socket
import ssl
from pathlib import Path
from typing import Final

import msgspec

from kstorm.errors import ConfigError

VARIABLE: Final = "KSTORM_ZOOKEEPER_TLS"
"""The setting."""
_EXAMPLE: Final = '{"ca": "/etc/zookeeper/ca.crt", "certfile": "/etc/zookeeper/tls.crt", "keyfile": "/etc/zookeeper/tls.key"}'


class ZooKeeperTls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `KSTORM_ZOOKEEPER_TLS` says, a JSON object with these names; `{}` is TLS with all of the defaults.

    Holds no secret: they are in the files.
    """

    ca: str = ""
    """PEM file of the authorities to trust, and no others; empty: those that the system trusts."""

    certfile: str = ""
    """PEM file with the client's own certificate, which ZooKeeper asks for unless its `ssl.clientAuth` says otherwise; empty: none.
    Its key may be in it."""

    keyfile: str = ""
    """PEM file with the key of `certfile`; empty: it is in that."""

    keyfile_password_file: str = ""
    """File with the password of that key; empty: it has none."""

    check_hostname: bool = True
    """Whether a server's certificate must be valid for the name or address by which the connect string calls it."""

    def __post_init__(self) -> None:
        for name in ("keyfile", "keyfile_password_file"):
            if getattr(self, name) and not self.certfile:
                raise ConfigError(
                    f"{VARIABLE} has {name} without certfile: give the certificate too, or leave it out"
                )

    def connect(
        self, address: tuple[str, int], name: str | None, timeout: float | None
    ) -> ssl.SSLSocket:
        """A connection to a server that is called `name`. Raises `ConfigError` if a file cannot be used, `OSError` if there is
        no connection."""
        context = self.context()
        plain = socket.create_connection(address, timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return context.wrap_socket(plain, server_hostname=name or address[0])
        except BaseException:
            plain.close()
            raise

    def context(self) -> ssl.SSLContext:
        """Made of the files as they are now. Raises `ConfigError` naming the one that cannot be used."""
        for name in ("ca", "certfile", "keyfile", "keyfile_password_file"):
            if getattr(self, name):
                self._read(name)
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
        except ssl.SSLError as error:
            raise self._unusable(
                "ca", f"it has no certificate in PEM ({error.reason or error})"
            ) from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.check_hostname
        if self.certfile:
            self._show(context)
        return context

    def _show(self, context: ssl.SSLContext) -> None:
        try:
            context.load_cert_chain(self.certfile, self.keyfile or None, self._password)
        except (ssl.SSLError, ValueError) as error:  # ValueError: a password that is too long
            key = f"the key in keyfile {self.keyfile!r}" if self.keyfile else "the key in it"
            why = getattr(error, "reason", None) or error
            password = ", and is keyfile_password_file right" if self.keyfile_password_file else ""
            raise self._unusable(
                "certfile",
                f"with {key} ({why}): are both in PEM, do they belong together{password}?",
            ) from None

    def _password(self) -> str:
        """Asked for if the key has one; without this OpenSSL would ask whoever sits at the terminal."""
        if not self.keyfile_password_file:
            name = "keyfile" if self.keyfile else "certfile"
            raise self._unusable(
                name, "its key has a password: name a file with it in keyfile_password_file"
            )
        return self._read("keyfile_password_file").rstrip("\r\n")

    def _read(self, name: str) -> str:
        try:
            return Path(getattr(self, name)).read_text()
        except (OSError, ValueError) as error:  # ValueError: not UTF-8, or no name of a file
            reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
            raise self._unusable(name, str(reason)) from None

    def _unusable(self, name: str, why: str) -> ConfigError:
        return ConfigError(
            f"{VARIABLE} has {name} {getattr(self, name)!r}, which cannot be used: {why}"
        )


def parse_tls(text: str) -> ZooKeeperTls:
    """What the setting says, with files that can be used now. Raises `ConfigError`, which shows no more than names of files: what
    stands there may be a password in the wrong place."""
    try:
        found = msgspec.json.decode(text.encode(errors="replace"), type=ZooKeeperTls)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        why = str(error) if isinstance(error, msgspec.ValidationError) else "it is no JSON object"
        raise ConfigError(
            f"{VARIABLE} cannot be read ({why}): write e.g. {_EXAMPLE}; {{}} trusts whom the system trusts"
        ) from None
    found.context()
    return found
