"""The errors that kstorm raises deliberately.

A message names the object, its value and the remedy, so that it can be shown to a user unchanged.
Entry points catch `KstormError` and print that one line. Any other exception is a bug and keeps its
stack trace.
"""


class KstormError(Exception):
    """Base of all errors. Its message is written for the user."""

    exit_code = 2
    """Exit code of a command that ends with this error."""


class TopologyError(KstormError):
    """The wiring cannot work: an unknown stream, a duplicate id, a cycle without a spout."""


class ConfigError(KstormError):
    """A setting is missing, has the wrong type or contradicts another one."""


class ArgumentError(ConfigError, TopologyError):
    """An argument has the wrong type or is out of range."""


class AbsentError(ConfigError):
    """A requested object does not exist: a message, a dead letter. The query itself succeeded."""


class EmitError(KstormError):
    """A bolt or spout emitted something that its declaration does not allow."""


class PermanentError(KstormError):
    """Raised while a tuple is executed if no further attempt can succeed.

    The message becomes a dead letter immediately, instead of after its last retry.
    """


class UnsendableError(PermanentError, EmitError):
    """A tuple contains a value that cannot be sent, such as an integer of more than 64 bits."""


class TupleTooLargeError(UnsendableError):
    """A single tuple is too large for a Kafka record."""


class UnstorableError(PermanentError, TypeError, ValueError):
    """A value cannot be stored in a state, because MessagePack cannot encode it or because it is
    too large."""


class FrameError(KstormError):
    """A record on an internal topic is not a valid frame of a known format version."""


class TopicError(KstormError):
    """A topic is missing, or its partition count differs from the topology."""


class BrokerError(KstormError):
    """Kafka or ZooKeeper is unreachable or refused a request."""


class NoBrokerError(BrokerError):
    """No Kafka broker responds. The outage may be temporary."""


class NotYetError(KstormError):
    """Raised by a scheme or a serializer that still waits for an external response, such as that of
    a schema registry.

    The message itself is fine. It waits and is retried. Schemes and serializers must never block
    until the response arrives.
    """


class StorageError(KstormError):
    """The process cannot read or write its disk: it is full, broken or owned by another user."""


class LocalError(KstormError):
    """A local server, service process, download, jar or Java failed."""


class ControlError(KstormError):
    """An operator's request to a topology was refused or did not take effect in time."""


class OverdueError(ControlError):
    """An operator's request has not taken effect in time. It still may."""

    exit_code = 3


class InUseError(KstormError):
    """The object to change belongs to a running process or was changed concurrently."""


class FencedError(KstormError):
    """Another process has taken over this one's tasks. This process must stop, and must not write
    anything more."""


class TasksLostError(FencedError):
    """A process lost contact with its group for so long that other processes may have its tasks."""


class LostInputError(KstormError):
    """The input topic does not have the records any more that a task still needs."""


class LostOffsetError(KstormError):
    """A consumer group's offset is missing or does not fit its topic.

    So the position where the group should continue is unknown.
    """


class FailedException(KstormError):  # noqa: N818 - Storm's name
    """Raised by a `BasicBolt` to fail its input without a report (Storm's `FailedException`).

    The error is not reported.
    """


class ReportedFailedException(FailedException):
    """Like `FailedException`, but the error is also reported (Storm's `ReportedFailedException`)."""
