"""Every error that kstorm raises on purpose.

The rule: a message names the thing, the value it had and what to do about it, so that it can be shown to a user as it
stands. Entry points catch `KstormError` and print that one line; anything else is a bug and keeps its stack trace.
"""


class KstormError(Exception):
    """The root of the hierarchy; its message is written for the user."""


class TopologyError(KstormError):
    """The wiring of a topology cannot work: an unknown stream, a duplicate id, a cycle without a spout."""


class ConfigError(KstormError):
    """A setting is missing, has the wrong type or contradicts another."""


class AbsentError(ConfigError):
    """What somebody asks for is not there: a message, a dead letter. Whoever was asked has answered."""


class EmitError(KstormError):
    """A bolt or spout emitted something that its declaration does not allow."""


class TupleTooLargeError(EmitError):
    """One tuple alone is larger than a Kafka record may be."""


class FrameError(KstormError):
    """A record on an internal topic is not a frame of this format version."""


class TopicError(KstormError):
    """A topic is missing or has another partition count than the topology says."""


class BrokerError(KstormError):
    """Kafka or ZooKeeper cannot be reached, or refused what was asked."""


class NoBrokerError(BrokerError):
    """No Kafka broker answers, for now or for good: that cannot be told from here."""


class NotYetError(KstormError):
    """Raised by a scheme or a serializer that must ask somebody first, a schema registry say, and has no answer so far.

    Nothing is wrong with the message: it stays where it is, and is tried again. Such a thing never waits for the answer.
    """


class StorageError(KstormError):
    """A process's own disk cannot be read or written: it is full, or broken, or not this user's."""


class LocalError(KstormError):
    """Something that kstorm runs or fetches on this machine failed: a server, a service's process, Java, a jar."""


class ControlError(KstormError):
    """What an operator asked of a topology was refused, or has not come about in time."""


class OverdueError(ControlError):
    """What an operator waits for has not come about in time. It may still; a command ends with exit code 3 then."""


class InUseError(KstormError):
    """What is to be changed belongs to a process at work, or was changed by one meanwhile."""


class FencedError(KstormError):
    """Another process has taken over this one's tasks; it must stop and write nothing more."""


class TasksLostError(FencedError):
    """A process was not heard by its group, or did not hear it, for so long that others may have its tasks."""


class LostInputError(KstormError):
    """Records that a task still needs are gone from its input topic."""


class LostOffsetError(KstormError):
    """A consumer group's offset is missing, or is not one of its topic: it does not say where to go on."""


class FailedException(KstormError):  # noqa: N818 - Storm's name
    """Raised by a `BasicBolt` to fail its input tuple without an error report (Storm's `FailedException`)."""


class ReportedFailedException(FailedException):
    """As `FailedException`, and the error is reported as well (Storm's `ReportedFailedException`)."""
