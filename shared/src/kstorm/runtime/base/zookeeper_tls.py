"""TLS for ZooKeeper: the trusted authorities and the client's certificate.

**A server's certificate is always checked**, only against `ca` if that is given. **Files are read
for each connection**, so renewed certificates need no restart. This module does not import kazoo,
so that bolts run without it.
"""

import socket
import ssl
from pathlib import Path
from typing import Final

import msgspec

from kstorm.errors import ConfigError

VARIABLE: Final = "KSTORM_ZOOKEEPER_TLS"
_EXAMPLE: Final = (
    '{"ca": "/etc/zookeeper/ca.crt", "certfile": "/etc/zookeeper/tls.crt", "keyfile": '
    '"/etc/zookeeper/tls.key"}'
)


class ZooKeeperTls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The JSON object in `KSTORM_ZOOKEEPER_TLS`. `{}` means TLS with all defaults.

    It contains no secrets, because these are in the files.
    """

    ca: str = ""
    """PEM file of the only authorities to trust. Empty: the system's authorities."""

    certfile: str = ""
    """PEM file with the client's certificate, which may also contain its key. Empty: none.

    ZooKeeper's `ssl.clientAuth` determines whether it is required.
    """

    keyfile: str = ""
    """PEM file with the key of `certfile`. Empty: the key is in `certfile`."""

    keyfile_password_file: str = ""
    """File with the password of the key. Empty: the key has no password."""

    check_hostname: bool = True
    """Require that a server's certificate is valid for its name or address in the connect
    string."""

    def __post_init__(self) -> None:
        for name in ("keyfile", "keyfile_password_file"):
            if getattr(self, name) and not self.certfile:
                raise ConfigError(
                    f"{VARIABLE} has {name} without certfile: give the certificate too, or leave "
                    "it out"
                )

    def connect(
        self, address: tuple[str, int], name: str | None, timeout: float | None
    ) -> ssl.SSLSocket:
        """Connect to a server with the host name `name`. Raises `ConfigError` if a file is invalid,
        `OSError` if the connection fails."""
        context = self.context()
        plain = socket.create_connection(address, timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return context.wrap_socket(plain, server_hostname=name or address[0])
        except BaseException:
            plain.close()
            raise

    def context(self) -> ssl.SSLContext:
        """Return a context for the current files. Raises `ConfigError` with the invalid file."""
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
        except (ssl.SSLError, ValueError) as error:
            # ValueError: the password is too long
            key = f"the key in keyfile {self.keyfile!r}" if self.keyfile else "the key in it"
            why = getattr(error, "reason", None) or error
            password = ", and is keyfile_password_file right" if self.keyfile_password_file else ""
            raise self._unusable(
                "certfile",
                f"with {key} ({why}): are both in PEM, do they belong together{password}?",
            ) from None

    def _password(self) -> str:
        """Return the key's password. OpenSSL calls this only if the key has a password. Without
        this function, it would prompt on the terminal."""
        if not self.keyfile_password_file:
            name = "keyfile" if self.keyfile else "certfile"
            raise self._unusable(
                name, "its key has a password: name a file with it in keyfile_password_file"
            )
        return self._read("keyfile_password_file").rstrip("\r\n")

    def _read(self, name: str) -> str:
        try:
            return Path(getattr(self, name)).read_text()
        except (OSError, ValueError) as error:
            # ValueError: not UTF-8, or not a valid file name
            reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
            raise self._unusable(name, str(reason)) from None

    def _unusable(self, name: str, why: str) -> ConfigError:
        return ConfigError(
            f"{VARIABLE} has {name} {getattr(self, name)!r}, which cannot be used: {why}"
        )


def parse_tls(text: str) -> ZooKeeperTls:
    """Parse the setting and check its files. Raises `ConfigError`, which quotes nothing except file
    names.

    Other text may be a misplaced password.
    """
    try:
        found = msgspec.json.decode(text.encode(errors="replace"), type=ZooKeeperTls)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        why = (
            str(error) if isinstance(error, msgspec.ValidationError) else "it is not a JSON object"
        )
        raise ConfigError(
            f"{VARIABLE} cannot be read ({why}): write e.g. {_EXAMPLE}; {{}} trusts the "
            "authorities of the system"
        ) from None
    found.context()
    return found
