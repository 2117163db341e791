"""An upgrade across a change of the frame format: reading, writing and rejecting formats.

A second format stands in for the next one. It swaps stream and component, and adds a name for the
cluster that no present format has.
"""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import astuple

from kstorm.core.engine import InputRecord
from kstorm.core.engine.effects import Send
from kstorm.core.wire import (
    FIRST,
    READERS,
    VERSION,
    WRITERS,
    AckFrame,
    CompletionFrame,
    Frame,
    TupleFrame,
    decode,
)
from kstorm.errors import ConfigError, FrameError
from kstorm.testing import FeederSpout
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Config,
    OutputFieldsDeclarer,
    Topology,
    TopologyBuilder,
    Tuple,
)
from kstorm.topology import config as config_module
from tests.unit.core.engines import Driven, bolt_engine, frame

NEXT = VERSION + 1


def write_next(frame: Frame) -> bytes:
    """Encodes the next format: tuples have another order and one more element."""
    values = list(astuple(frame))
    if isinstance(frame, TupleFrame):
        values[1], values[3] = values[3], values[1]
        values.insert(1, "a cluster")
    return msgspec.msgpack.encode(values)


def read_next(data: bytes) -> TupleFrame:
    version, _, stream, task, component, *rest = msgspec.msgpack.Decoder(list, strict=False).decode(
        data
    )
    return TupleFrame(version, component, task, stream, *rest)


@pytest.fixture
def next_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that reads and writes both."""
    monkeypatch.setitem(READERS[TupleFrame], NEXT, read_next)
    for kind in (AckFrame, CompletionFrame):
        monkeypatch.setitem(READERS[kind], NEXT, READERS[kind][VERSION])
    monkeypatch.setitem(WRITERS, NEXT, write_next)
    monkeypatch.setattr(config_module, "FRAME_FORMATS", {*WRITERS})


class Echo(BasicBolt):
    def __init__(self) -> None:
        self.words: list[str] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> "Echo":
        return self

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        self.words.append(tuple["word"])
        collector.emit([tuple["word"]])


def topology(echo: Echo, **settings: Any) -> Topology:
    builder = TopologyBuilder("t", Config(topology_acker_tasks=1, **settings))
    builder.set_spout("words", FeederSpout("word"))
    builder.set_bolt("echo", echo).shuffle_grouping("words")
    builder.set_bolt("more", Echo()).shuffle_grouping("echo")
    return builder.build()


def in_next_format(offset: int, word: str) -> InputRecord:
    found = decode(TupleFrame, frame(offset, word).value)
    found.version = NEXT
    return InputRecord(offset, write_next(found))


def sent(driven: Driven) -> dict[str, list[bytes]]:
    """Returns the sent values by topic."""
    found: dict[str, list[bytes]] = {}
    for send in driven.take(Send):
        for record in send.records:
            found.setdefault(record.topic, []).append(record.value)
    return found


# Reading.


@pytest.mark.usefixtures("next_release")
def test_two_formats_are_read_side_by_side() -> None:
    """This happens during a rolling upgrade."""
    echo = Echo()
    bolt = Driven(bolt_engine(topology(echo), "echo"))
    bolt.assign(t0=0)
    bolt.poll(0, frame(0, "a"), in_next_format(1, "b"), frame(2, "c"), in_next_format(3, "d"))
    assert echo.words == ["a", "b", "c", "d"]
    assert "t.__dead_letters" not in sent(bolt)


def test_frame_of_an_unknown_format_becomes_a_dead_letter_with_a_remedy() -> None:
    """The letter has coordinates and bytes, so nothing is lost. Its neighbours are executed."""
    echo = Echo()
    bolt = Driven(bolt_engine(topology(echo), "echo"))
    bolt.assign(t0=0)
    later = in_next_format(1, "b")
    bolt.poll(0, frame(0, "a"), later, frame(2, "c"))
    assert echo.words == ["a", "c"]
    (letter,) = map(json.loads, sent(bolt)["t.__dead_letters"])
    assert (letter["topic"], letter["partition"], letter["offset"]) == ("t.echo", 0, 1)
    assert letter["reason"] == (
        f"a frame of type TupleFrame has format version {NEXT}, but this release reads version {FIRST} and {VERSION}; a "
        "newer release wrote it: keep the old topology_frame_format until every process runs a "
        "release that reads the new one"
    )


@pytest.mark.usefixtures("next_release")
@pytest.mark.parametrize(
    ("version", "advice"),
    [
        (0, "an older release wrote it: upgrade one format at a time"),
        (9, "a newer release wrote it"),
        (200, "a newer"),
    ],
)
@pytest.mark.parametrize("kind", [TupleFrame, AckFrame, CompletionFrame])
def test_reason_names_the_supported_formats(kind: type[Any], version: int, advice: str) -> None:
    """This includes numbers of several bytes, and frames with unknown elements."""
    data = msgspec.msgpack.encode([version, {"all": "else"}])
    said = (
        f"a frame of type {kind.__name__} has format version {version}, but this release reads "
        f"version {FIRST} and {VERSION} and {NEXT}; {advice}"
    )
    with pytest.raises(FrameError, match=said):
        decode(kind, data)


@pytest.mark.parametrize("form", [b"\xdc\x00\x02", b"\xdd\x00\x00\x00\x02"])
@pytest.mark.parametrize("number", [b"\x01", b"\xcc\x01", b"\xcd\x00\x01"])
def test_a_format_is_known_however_its_number_is_written(form: bytes, number: bytes) -> None:
    """MessagePack has longer encodings of a number, and another encoder may use them."""
    assert decode(CompletionFrame, form + number + b"\x00") == CompletionFrame(FIRST, 0)


def test_a_long_array_is_not_taken_for_a_format() -> None:
    """An array of 256 or more elements has 1 in its second byte, where a short one has the format."""
    data = msgspec.msgpack.encode([NEXT, *range(255), *[0] * 20])
    assert data[1] == FIRST
    with pytest.raises(FrameError):
        decode(CompletionFrame, data)
    longer = msgspec.msgpack.encode([NEXT, 0, b"", b"", b"", {}, *[0] * 300])
    assert longer[1] == FIRST
    with pytest.raises(FrameError, match=f"has format version {NEXT}"):
        decode(CompletionFrame, longer)


# Writing.


def test_written_formats_can_be_read() -> None:
    """This release reads them, and the setting accepts them."""
    assert set(WRITERS) == config_module.FRAME_FORMATS
    assert all(set(WRITERS) <= set(readers) for readers in READERS.values())
    assert Config().topology_frame_format in WRITERS


@pytest.mark.usefixtures("next_release")
@pytest.mark.parametrize("form", [FIRST, VERSION, NEXT])
def test_setting_selects_the_written_format(form: int) -> None:
    """The setting applies to tuples and acks. A new release first writes the old format."""
    bolt = Driven(bolt_engine(topology(Echo(), topology_frame_format=form), "echo"))
    bolt.assign(t0=0)
    bolt.poll(0, frame(1, "a"))
    found = sent(bolt)
    assert {data[1] for records in found.values() for data in records} == {form}
    (tuples,), (acks,) = found["t.more"], found["t.__acker"]
    assert decode(TupleFrame, tuples).columns == [["a"]]
    assert decode(AckFrame, acks).version == form


def test_a_format_that_this_release_does_not_write_is_refused() -> None:
    """The error comes before anything starts."""
    with pytest.raises(
        ConfigError,
        match=f"topology_frame_format is {NEXT}: this release writes {FIRST} or {VERSION};",
    ):
        Config(topology_frame_format=NEXT)
