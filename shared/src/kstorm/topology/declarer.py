"""Declarations of a component's output streams (Storm's `OutputFieldsDeclarer`)."""

from collections.abc import Iterable
from dataclasses import dataclass

from kstorm.errors import TopologyError
from kstorm.fitting import checked
from kstorm.topology.fields import Fields
from kstorm.topology.tuple import DEFAULT_STREAM


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """One declared output stream."""

    id: str
    fields: Fields
    direct: bool = False
    """True if the emitter names the receiving task."""


class OutputFieldsDeclarer:
    """Collects the streams of one component."""

    def __init__(self, component: str) -> None:
        self._component = component
        self.streams: dict[str, StreamSpec] = {}

    @checked()
    def declare(self, *fields: str | Iterable[str], direct: bool = False) -> None:
        """Declare the default stream: `declare("word", "count")` or `declare(Fields("word",
        "count"))`.

        Raises `TopologyError` as `declare_stream` does.
        """
        self.declare_stream(DEFAULT_STREAM, *fields, direct=direct)

    @checked("stream")
    def declare_stream(
        self, stream: str, *fields: str | Iterable[str], direct: bool = False
    ) -> None:
        """Declare a named stream.

        Raises `TopologyError` if it is declared twice or its name starts with `__`.
        """
        if not isinstance(stream, str) or not stream or stream.startswith("__"):
            raise TopologyError(
                f"{self._component!r} declares the stream {stream!r}: use a name that does not "
                "start with '__'"
            )
        if stream in self.streams:
            raise TopologyError(
                f"{self._component!r} declares its stream {stream!r} twice: declare each stream "
                "once"
            )
        self.streams[stream] = StreamSpec(stream, Fields(*fields), direct)
