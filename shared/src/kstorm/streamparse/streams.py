"""streamparse's `Stream` and `Grouping`."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from kstorm.errors import TopologyError
from kstorm.fitting import Text, checked
from kstorm.topology import DEFAULT_STREAM, Fields, OutputFieldsDeclarer
from kstorm.topology.groupings import (
    AllGrouping,
    DirectGrouping,
    FieldsGrouping,
    GlobalGrouping,
    NoneGrouping,
    ShuffleGrouping,
)
from kstorm.topology.groupings import Grouping as KstormGrouping


class Stream:
    """An output stream of a component."""

    @checked()
    def __init__(
        self, fields: Sequence[str] | None = None, name: Text = "default", direct: bool = False
    ) -> None:
        """`fields` are the names of the values; None means no fields.

        With `direct`, the emitter names the receiving task. Raises `TopologyError` for a value of
        another type.
        """
        if isinstance(fields, str):
            raise TopologyError(f"fields of a Stream is {fields!r}: give a list of names")
        self.fields, self.name, self.direct = list(fields or ()), name, direct

    def __repr__(self) -> str:
        return f"Stream({self.fields!r}, name={self.name!r}, direct={self.direct})"


class JavaGrouping:
    """A grouping that only a Java virtual machine can make. A topology with one is refused."""

    def __init__(self, java_class: str) -> None:
        self.java_class = java_class


class Grouping:
    """The ways to share a stream among the tasks of a bolt. Without one it is `SHUFFLE`, or `DIRECT`
    for a direct stream."""

    SHUFFLE: ClassVar[KstormGrouping] = ShuffleGrouping()
    GLOBAL: ClassVar[KstormGrouping] = GlobalGrouping()
    DIRECT: ClassVar[KstormGrouping] = DirectGrouping()
    ALL: ClassVar[KstormGrouping] = AllGrouping()
    NONE: ClassVar[KstormGrouping] = NoneGrouping()
    LOCAL_OR_SHUFFLE: ClassVar[KstormGrouping] = ShuffleGrouping()

    @classmethod
    @checked()
    def fields(cls, *fields: Text | list[str]) -> KstormGrouping:
        """Send equal values of these fields to the same task: `fields("word")`, or a list of names.

        Raises `TopologyError` without a name.
        """
        found = Fields(*fields)
        if not len(found):
            raise TopologyError("Grouping.fields() has no fields: name at least one")
        return FieldsGrouping(found)

    @classmethod
    @checked()
    def custom_object(cls, java_class_name: Text, arg_list: Sequence[object]) -> JavaGrouping:
        """Describe a grouping in Java, which the topology's build refuses by name."""
        return JavaGrouping(java_class_name)

    @classmethod
    @checked()
    def custom_serialized(cls, java_serialized: bytes) -> JavaGrouping:
        """Describe a grouping in Java, which the topology's build refuses."""
        return JavaGrouping("of serialized bytes")


def streams_of(owner: str, outputs: object) -> dict[str, Stream]:
    """Return the streams that a component's `outputs` describe, by name.

    Raises `TopologyError` for anything but names and streams.
    """
    if outputs is None:
        return {}
    if isinstance(outputs, str) or not isinstance(outputs, Iterable):
        raise TopologyError(
            f"outputs of {owner} is {outputs!r}: give a list of field names or of Streams"
        )
    found: dict[str, Stream] = {}
    for each in outputs:
        if isinstance(each, Stream):
            found[each.name] = each
        elif isinstance(each, str):
            found.setdefault(DEFAULT_STREAM, Stream()).fields.append(each)
        else:
            raise TopologyError(
                f"outputs of {owner} has {each!r}: give a list of field names or of Streams"
            )
    return found


def declare(streams: Iterable[Stream], declarer: OutputFieldsDeclarer) -> None:
    """Declare streams."""
    for stream in streams:
        declarer.declare_stream(stream.name, stream.fields, direct=stream.direct)
