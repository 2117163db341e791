"""The address of a schema registry, and the import of its client libraries, which are an extra."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kstorm.errors import ConfigError
from kstorm.fitting import check_fields

if TYPE_CHECKING:
    from kstorm.registry.client import NonBlockingRegistryClient


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """A schema registry. Raises `ConfigError` if the address is invalid."""

    url: str = field(repr=False)
    """`http://host:port`. Several comma-separated addresses are tried in turn. They may include
    credentials."""

    properties: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Further properties of confluent-kafka's `SchemaRegistryClient`, for TLS and authentication
    (`ssl.ca.location`, `basic.auth.user.info`, …). In kstorm, requests time out after 10 s by
    default (`timeout`) and are not retried by the client (`max.retries`), because kstorm retries
    them."""

    def __post_init__(self) -> None:
        check_fields(self)
        for url in self.url.split(","):
            if (
                not url.strip().startswith(("http://", "https://"))
                or not urlsplit(url.strip()).hostname
            ):
                raise ConfigError(
                    f"the schema registry's address is {_without_login(url)!r}: give "
                    "http://host:port"
                )

    @property
    def shown(self) -> str:
        """The address for log messages, without user and password."""
        return ",".join(map(_without_login, self.url.split(",")))

    def client(self) -> "NonBlockingRegistryClient":
        """Create a client. Raises `ConfigError` on invalid properties, or without the extra."""
        connect: type[NonBlockingRegistryClient] = imported(
            "kstorm.registry.client", "NonBlockingRegistryClient"
        )
        return connect(self.url, self.shown, self.properties)


def _without_login(url: str) -> str:
    """Remove everything up to the last "@": a password may contain an unescaped "/" or "@"."""
    scheme, separator, rest = url.strip().rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def imported(module: str, name: str) -> Any:
    """Import `name` from a module that needs the extra. Raises `ConfigError` if it is missing."""
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        raise ConfigError(
            f"{name} needs the client libraries of a schema registry, but {error.name or error!s} "
            "is missing: install kstorm[registry] where the spout or bolt runs"
        ) from None
