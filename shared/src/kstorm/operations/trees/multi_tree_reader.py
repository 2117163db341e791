"""Collect the records of several trees in one pass.

Only the ids of each record are decoded, unless the record is about one of the trees. So a pass for
100 trees costs about as much as a pass for one.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final

import msgspec
from msgspec import Struct

from kstorm.core.salvage import UNREADABLE
from kstorm.core.wire import AckFrame, CompletionFrame, decode, unpack_ids
from kstorm.errors import FrameError
from kstorm.introspection.outline import Outline
from kstorm.operations.trees.tree import Tree, build
from kstorm.operations.trees.tree_reader import TopicRecord, TreeReader, TreeRecords


class _TupleIds(Struct, array_like=True):
    """Leading fields of a `TupleFrame`. The values are not decoded."""

    version: int
    component: Any
    task: Any
    stream: Any
    count: Any
    roots: bytes
    edges: Any
    more: dict[int, dict[int, int]]


_FEW: Final = 2
"""Up to this number of trees, searching the raw bytes is faster than decoding the ids."""

_tuples = msgspec.msgpack.Decoder(_TupleIds).decode


class MultiTreeReader:
    """One `TreeReader` for each root."""

    def __init__(self, topology: Outline, roots: Iterable[int]) -> None:
        self._of = {root: TreeReader(topology, root) for root in roots}
        self._wanted = frozenset(self._of)
        self._acker = topology.acker_topic
        self._bolts = {topology.bolt_topic(bolt.id) for bolt in topology.bolts}

    def take(self, record: TopicRecord) -> None:
        """Pass the record to the readers of the trees that it concerns."""
        if record.value is None:
            return
        if len(self._of) <= _FEW:
            for gatherer in self._of.values():
                gatherer.take(record)
            return
        try:
            found = self._wanted.intersection(self._roots(record.topic, record.value))
        except (*UNREADABLE, FrameError):
            # let each reader search the record
            found = self._wanted
        for root in found:
            self._of[root].take(record)

    def of(self, root: int) -> TreeRecords:
        """Return the records found so far for one tree."""
        return self._of[root].found

    def build(self, roots: Iterable[int]) -> Mapping[int, Tree]:
        """Return the trees according to the records found so far."""
        return {root: build(self._of[root].found) for root in roots}

    def _roots(self, topic: str, value: bytes) -> Iterable[int]:
        if topic in self._bolts:
            ids = _tuples(value)
            more = (root for pairs in ids.more.values() for root in pairs)
            return (*unpack_ids(ids.roots), *more)
        if topic == self._acker:
            acks = decode(AckFrame, value)
            columns = [acks.init_roots, acks.roots, acks.failed, acks.reset]
        else:
            told = decode(CompletionFrame, value)
            columns = [told.acked, told.failed, told.reset]
        return chain.from_iterable(map(unpack_ids, columns))


def is_whole(tree: Tree) -> bool:
    """Return True if the tuples of all counted inits and acks were found.

    Further records then add nothing to this tree.
    """
    kinds = (number for number in tree.proof.counted if tree.news[number].kind != "fail")
    return tree.proof.begun and all(tree.entries.get(number) for number in kinds)
