"""TLS to ZooKeeper as a setting of the pipeline: kstorm's own, with the pipeline's errors."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from kstorm.errors import ConfigError
from kstorm.runtime.base import zookeeper_tls as kstorm_tls
from kstorm_pipeline.errors import SettingsError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

_FLAG = "--zookeeper-tls"


class ZooKeeperTls(kstorm_tls.ZooKeeperTls, frozen=True, kw_only=True):
    """Trusted authorities and the client's certificate. Contains only file names, no secrets."""

    def context(self) -> ssl.SSLContext:
        """Load the files now. Raises SettingsError that names an unusable file."""
        with _of_setting(_FLAG):
            return super().context()


def parse_tls(name: str, text: str) -> ZooKeeperTls:
    """Parse the setting called `name`. Its files must be usable now.

    Raises SettingsError, which contains no more than names of files.
    """
    with _of_setting(name):
        found = kstorm_tls.parse_tls(text)
    return ZooKeeperTls(**msgspec.structs.asdict(found))


@contextmanager
def _of_setting(name: str) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        text = str(error).replace(f"{kstorm_tls.VARIABLE} has", f"{_FLAG} has")
        raise SettingsError(text.replace(kstorm_tls.VARIABLE, name)) from None
