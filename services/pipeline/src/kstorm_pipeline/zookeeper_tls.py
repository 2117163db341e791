"""TLS to ZooKeeper, with the format of the services' `KSTORM_ZOOKEEPER_TLS`.

The pipeline shares no code with the services. The rule is the same: a server's certificate is
always checked, and only against `ca` if that is given.
"""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass, fields
from pathlib import Path

from kstorm_pipeline.errors import SettingsError


@dataclass(frozen=True, slots=True)
class ZooKeeperTls:
    """Trusted authorities and the client's certificate. Contains only file names, no secrets."""

    ca: str = ""
    """PEM file of the only trusted authorities. Empty: the system's."""
    certfile: str = ""
    """PEM file with the client's certificate, if ZooKeeper requires one. It may include the key."""
    keyfile: str = ""
    """PEM file with the key of `certfile`, if that does not include it."""
    keyfile_password_file: str = ""
    """File with the key's password, if it has one."""
    check_hostname: bool = True
    """True if the certificate must be valid for the server's name in `--zookeeper`."""

    def context(self) -> ssl.SSLContext:
        """Load the files now. Raises SettingsError that names an unusable file."""
        for name in ("ca", "certfile", "keyfile", "keyfile_password_file"):
            if getattr(self, name):
                self._text_of(name)
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
        except ssl.SSLError as error:
            raise self._unusable("ca", f"it has no certificate in PEM ({error.reason})") from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.check_hostname
        if self.certfile:
            try:
                context.load_cert_chain(self.certfile, self.keyfile or None, self._password)
            except (ssl.SSLError, ValueError) as error:  # ValueError: the password is too long
                why = getattr(error, "reason", None) or error
                raise self._unusable(
                    "certfile",
                    f"its key does not fit ({why}): check keyfile and keyfile_password_file",
                ) from None
        return context

    def _password(self) -> str:
        """Called if the key has a password. Without it OpenSSL would prompt at the terminal."""
        if not self.keyfile_password_file:
            raise self._unusable(
                "certfile", "its key has a password: give a file with it as keyfile_password_file"
            )
        return self._text_of("keyfile_password_file").rstrip("\r\n")

    def _text_of(self, name: str) -> str:
        try:
            return Path(getattr(self, name)).read_text()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
            raise self._unusable(name, str(reason)) from None

    def _unusable(self, name: str, why: str) -> SettingsError:
        return SettingsError(
            f"--zookeeper-tls has {name} {getattr(self, name)!r}, which cannot be used: {why}"
        )


def parse_tls(name: str, text: str) -> ZooKeeperTls:
    """Parse the setting called `name`. Its files must be usable now.

    Raises SettingsError, which contains no more than names of files.
    """
    kinds = {each.name: type(each.default) for each in fields(ZooKeeperTls)}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or any(
        type(value) is not kinds.get(key) for key, value in found.items()
    ):
        names = ", ".join(kinds)
        raise SettingsError(
            f"{name} cannot be read; give a JSON object with some of {names}: "
            "strings, except check_hostname, which is true or false"
        )
    tls = ZooKeeperTls(**found)
    tls.context()
    return tls
