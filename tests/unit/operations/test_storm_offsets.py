"""The metadata of offsets that Storm has committed."""

from typing import cast

import pytest
from confluent_kafka import TopicPartition

from kstorm.operations.migration.storm_offsets import topology_id_of

METADATA = b'{"topologyId":"word-count-1-1795795791","taskId":3,"threadName":"Thread-40"}'


class Place:
    """A partition as confluent-kafka returns it: its metadata is decoded when it is read."""

    def __init__(self, metadata: bytes) -> None:
        self._metadata = metadata

    @property
    def metadata(self) -> str:
        return self._metadata.decode()


@pytest.mark.parametrize("more", [b"", b"ad-!", b'1",E', b"\x80\x01", b'}{"topologyId":"other"}'])
def test_bytes_after_the_metadata_do_not_matter(more: bytes) -> None:
    place = cast(TopicPartition, Place(METADATA + more))
    assert topology_id_of(place) == "word-count-1-1795795791"


@pytest.mark.parametrize("metadata", [b"", b"mine", b"\x80"])
def test_other_programs_have_other_metadata(metadata: bytes) -> None:
    assert topology_id_of(cast(TopicPartition, Place(metadata))) == ""


def test_offset_may_have_none() -> None:
    assert topology_id_of(TopicPartition("lines", 0, 5)) == ""
