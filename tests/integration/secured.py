"""A Kafka with TLS, logins and ACLs, and the settings of its clients."""

from collections.abc import Iterable
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined] # its stubs hide some
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kstorm.dev.servers import EmbeddedKafka
from tests.integration import topologies
from tests.integration.certificates import Authority

STRANGER = "stranger"
USER, PASSWORD = "kstorm", "scram-Pa55"

_Right = tuple[ResourceType, str, ResourcePatternType, AclOperation]
"""Type, name and pattern of the resource, and the operation."""


class Secured:
    """A Kafka with TLS, and the settings of its clients."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "certificates", "authority")
        self.stranger = Authority(directory / "certificates", "stranger")
        certificates = {
            "valid": self.authority.sign("broker"),
            "expired": self.authority.sign("old", expired=True),
        }
        self.kafka = EmbeddedKafka(
            directory,
            name="secured",
            quick_start=True,
            logins={USER: PASSWORD, STRANGER: PASSWORD},
            certificates=certificates,
            settings={
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",  # clients without TLS: the tests themselves
            },
        )

    def properties(self, **changes: str) -> dict[str, str]:
        """Return the settings of a client with access."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self.authority.certificate),
            **{name.replace("_", "."): value for name, value in changes.items()},
        }

    def allow(self, prefix: str, *, transactions: bool = True) -> None:
        """Grant the user the rights of docs/guides/security.md for a test's topology.

        `transactions=False` leaves out the rights for transactions.
        """
        name, source, sink = topologies.names(prefix)
        topic, group, transaction = (
            ResourceType.TOPIC,
            ResourceType.GROUP,
            ResourceType.TRANSACTIONAL_ID,
        )
        own, exactly = ResourcePatternType.PREFIXED, ResourcePatternType.LITERAL
        may = AclOperation
        needed = [
            *(
                (topic, f"{name}.", own, to)
                for to in (may.CREATE, may.DESCRIBE, may.DESCRIBE_CONFIGS, may.READ, may.WRITE)
            ),
            (group, f"{name}.", own, may.READ),
            *([(transaction, f"{name}.", own, may.WRITE)] if transactions else []),
            (topic, source, exactly, may.READ),
            (group, name, exactly, may.READ),  # the id of the SpoutConfig
            (topic, sink, exactly, may.WRITE),
        ]
        self._grant(USER, needed)

    def let_write(self, user: str, topic: str) -> None:
        """Allow a user to write one topic."""
        self.let(user, topic, AclOperation.WRITE)

    def let(self, user: str, topic: str, to: AclOperation) -> None:
        """Grant a user one right on one topic."""
        self._grant(user, [(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, to)])

    def _grant(self, user: str, rights: Iterable[_Right]) -> None:
        allowed = AclPermissionType.ALLOW
        rules = [
            AclBinding(kind, of, how, f"User:{user}", "*", to, allowed)
            for kind, of, how, to in rights
        ]
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap, "log_level": 0})
        for made in admin.create_acls(rules).values():
            made.result(30)

    def refusals(self) -> int:
        """Return the number of connections that the broker has rejected."""
        return self.kafka.log_path.read_text().count("Failed authentication with")
