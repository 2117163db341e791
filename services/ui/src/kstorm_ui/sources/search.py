"""Finds the objects that a text in the search box may mean, and reads keys of state."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import msgspec

from kstorm.errors import AbsentError, KstormError
from kstorm.introspection.state_query import StateEntry
from kstorm.operations.kubernetes.cluster import Cluster
from kstorm.operations.letters.reading import read_one
from kstorm.operations.state.state_client import StateClient
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.single_partition_topic import bounds
from kstorm.topology.names import NamesOf
from kstorm_ui.page_formatting import path
from kstorm_ui.sources.partitions import PartitionState
from kstorm_ui.topology_state import TopologyState

_ROOT: Final = re.compile("[0-9a-f]{16}")
_GROUP: Final = re.compile("[0-9a-f]{8}")
_NUMBER: Final = re.compile("[0-9]{1,18}")
_PLACE: Final = re.compile(
    "(?:(?P<topic>[^/]+)/)?(?P<partition>[0-9]{1,9})/(?P<offset>[0-9]{1,18})"
)
_PATIENCE_SECS: Final = 1.0


class SearchResult(msgspec.Struct, frozen=True):
    """An object that the text may mean."""

    kind: str
    said: str
    href: str
    value: str | None = None
    """Value of a key of state."""


def results_by_form(text: str, state: TopologyState) -> list[SearchResult]:
    """Return what the text can mean by its form, without a query."""
    if _ROOT.fullmatch(text):
        return [SearchResult("root", f"tree {text}", path("t", state.name, "roots", text))]
    found = []
    if place := _PLACE.fullmatch(text):
        topics = [place["topic"]] if place["topic"] else _topics(state)
        found += [_message(state, each, place["partition"], place["offset"]) for each in topics]
    if _GROUP.fullmatch(text):
        query = urlencode({"group": text})
        href = f"{path('t', state.name, 'letters')}?{query}"
        found.append(SearchResult("group", f"dead letters of the group {text}", href))
    if text in {each.component for each in state.components}:
        found.append(SearchResult("component", text, path("t", state.name, "c", text)))
    return found


def letter_of(settings: Settings, topology: str, text: str) -> list[SearchResult]:
    """Return the dead letter with this number, if there is one."""
    there = bounds(settings, NamesOf(topology).dead_letters_topic)
    if not _NUMBER.fullmatch(text) or there is None or not there[0] <= int(text) < there[1]:
        return []
    try:
        read_one(settings, topology, int(text))
    except AbsentError:
        return []
    return [
        SearchResult("dead letter", f"dead letter {text}", path("t", topology, "letters", text))
    ]


def offsets_of(
    text: str, state: TopologyState, partitions: Iterable[PartitionState]
) -> list[SearchResult]:
    """Return the messages with this offset in each source partition."""
    if not _NUMBER.fullmatch(text):
        return []
    return [
        _message(state, each.topic, str(each.partition), text)
        for each in partitions
        if each.start <= int(text) < each.end
    ]


def keys_of(
    place: Path | None, cluster: Cluster | None, state: TopologyState, key: str
) -> list[SearchResult]:
    """Return the entries for a key in the state of the bolts.

    `place`: folder of the runs on this machine, or None on Kubernetes.
    """
    client = StateClient(
        state.name,
        runs=place,
        namespace=None if cluster is None else cluster.namespace,
        context=cluster.context or None if cluster is not None else None,
        patience=_PATIENCE_SECS,
    )
    found: list[SearchResult] = []
    for component in (each.component for each in state.components if each.kind == "bolt"):
        try:
            entries: Sequence[StateEntry] = client.find(component, key)
        except KstormError:  # most bolts have no state
            continue
        found += [
            SearchResult(
                "key",
                f"{key} in the state of {component}, task {entry.task}",
                path("t", state.name, "c", component),
                _text(entry),
            )
            for entry in entries
        ]
    return found


def _text(entry: StateEntry) -> str:
    value = entry.read()
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (TypeError, ValueError):
        return repr(value)


def _topics(state: TopologyState) -> list[str]:
    outline = state.outline
    if outline is None:
        return []
    return sorted({each.topic for each in outline.readings.values() if not each.wildcard})


def _message(state: TopologyState, topic: str, partition: str, offset: str) -> SearchResult:
    where = f"{topic}/{partition}/{offset}"
    return SearchResult(
        "message", f"message {where}", path("t", state.name, "m", topic, partition, offset)
    )
