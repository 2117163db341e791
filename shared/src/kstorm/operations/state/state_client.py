"""Query the state of a running topology's bolts: `kstorm.client.StateClient`.

Every answer contains only committed data, and names its checkpoint. Tasks move between processes:
if a task is unassigned or its process does not respond, the client repeats the query for `patience`
seconds.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from kstorm.errors import ConfigError, ControlError, OverdueError
from kstorm.fitting import Natural, Seconds, Text, checked
from kstorm.introspection.key_owner import likely_values, owner_of
from kstorm.introspection.outline import Outline
from kstorm.introspection.state_query import LOGIN_HEADER, StateEntry, StatePage
from kstorm.operations.state.status_targets import AT_ONCE, StatusProcess, ask_each, open_target
from kstorm.runtime.base.settings import with_or_without_topology
from kstorm.topology import Topology

_PAUSE_SECS: Final = 0.2
# A process that lost its tasks may still respond, so the client looks up the processes again after
# this time.
_FRESH_SECS: Final = 5.0
_PAGE: Final = 1000
_UNKNOWN: Final = 401
_ELSEWHERE: Final = 421
# Limit on the characters of a query. Services accept request lines of 8190.
_MOST_CHARACTERS: Final = 7000


class StateClient:
    """Reads the state of a topology that runs on this machine (`./run topology`) or on Kubernetes.

        client = StateClient("wordcount")
        client.get("count", "the")             # the value, or None
        for found in client.scan("count", prefix="th"):
            print(found.key, found.read(), found.as_of.time)

    Only one thread may use it at a time.
    """

    @checked()
    def __init__(
        self,
        topology: Text | Topology,
        *,
        runs: Path | None = None,
        namespace: Text | None = None,
        context: Text | None = None,
        token: Text | None = None,
        patience: Seconds = 15.0,
    ) -> None:
        """Connect to a topology.

        `runs` is the folder of one run on this machine, or of several. `namespace` and `context`
        select a topology on Kubernetes. Without these options, the client prefers a topology of
        this name on this machine. `token` defaults to `KSTORM_STATE_TOKEN`, or to the file named by
        `KSTORM_STATE_TOKEN_FILE`. `patience` is the number of seconds to wait for an unassigned
        task.

        Raises `ControlError` if the topology does not exist, `ConfigError` if the options conflict.
        """
        self._name = topology if isinstance(topology, str) else topology.name
        self._askable = open_target(self._name, runs, namespace, context)
        token = with_or_without_topology(os.environ).state_token if token is None else token
        self._headers = {LOGIN_HEADER: token} if token else {}
        self._patience = patience
        self._outline: Outline | None = None
        # Processes and their tasks by component, with the time of the lookup.
        self._homes: dict[str, tuple[float, Sequence[tuple[StatusProcess, Sequence[int]]]]] = {}

    @checked()
    def get(
        self, component: Text, key: str, default: Any = None, *, by: Sequence[Any] | None = None
    ) -> Any:
        """Return the value of a key, or `default`.

        Raises `ControlError` if several tasks have the key, and the errors of `find`.
        """
        found = self.find(component, key, by=by)
        if len(found) > 1:
            tasks = ", ".join(str(each.task) for each in found)
            raise ControlError(
                f"several tasks of {component!r} have the key {key!r} ({tasks}): "
                "use find, or give by="
            )
        return found[0].read() if found else default

    @checked()
    def find(
        self, component: Text, key: str, *, by: Sequence[Any] | None = None
    ) -> Sequence[StateEntry]:
        """Return the tasks' entries for a key, normally one.

        `by` contains the values of the bolt's grouping fields, so that the client only queries the
        task that receives such tuples. Without `by`, the client assumes that these values are the
        key itself, or the items of the key if it is a JSON list. If that task does not have the
        key, the client queries the others.

        Raises `TopologyError` if the component does not exist. Raises `ControlError` if it has no
        state or access is denied. Raises `OverdueError` if no process had a task in time.
        """
        return [each for each in self.look(component, key, by=by) if each.there]

    @checked()
    def look(
        self, component: Text, key: str, *, by: Sequence[Any] | None = None
    ) -> Sequence[StateEntry]:
        """Like `find`, and also return the answers of tasks without the key."""
        _check_text("key", key)
        outline = self._known()
        first = owner_of(
            outline, component, likely_values(outline, component, key) if by is None else by
        )
        asked = [] if first is None else [self._get(component, key, first)]
        if asked and (asked[0].there or by is not None):
            return asked
        others = [task for task in outline.task_ids(component) if task != first]
        self._home(component)  # look up the processes once for all tasks
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return [*asked, *pool.map(lambda task: self._get(component, key, task), others)]

    @checked()
    def scan(
        self, component: Text, prefix: str = "", *, limit: Natural | None = None
    ) -> Iterator[StateEntry]:
        """Yield the entries whose keys begin with `prefix`, at most `limit`.

        The entries are ordered by task and then by key. The client reads them in pages of at most
        1000 keys, each from one checkpoint. Later changes may appear in later pages.
        """
        _check_text("prefix", prefix)
        left = limit
        for task in self._known().task_ids(component):
            after: str | None = None
            while left is None or left > 0:
                query = {
                    "task": str(task),
                    "prefix": prefix,
                    "limit": str(_PAGE if left is None else min(left, _PAGE)),
                }
                page = msgspec.convert(
                    self._ask(component, task, query | ({} if after is None else {"after": after})),
                    StatePage,
                )
                for entry in page.entries:
                    yield StateEntry(
                        entry.key,
                        entry.value,
                        entry.msgpack,
                        component=component,
                        task=task,
                        as_of=page.as_of,
                    )
                left = None if left is None else left - len(page.entries)
                after = page.next
                if after is None:
                    break

    @checked()
    def follow(
        self, component: Text, key: str, *, by: Sequence[Any] | None = None, every: Seconds = 0.5
    ) -> Iterator[Sequence[StateEntry]]:
        """Yield the result of `find`, now and whenever it has changed.

        The state is queried every `every` seconds. The client misses changes in between that are
        undone.
        """
        before: object = None
        while True:
            found = self.find(component, key, by=by)
            now = [(each.task, each.value, each.msgpack) for each in found]
            if now != before:
                before = now
                yield found
            time.sleep(every)

    @checked()
    def follow_all(
        self,
        component: Text,
        prefix: str = "",
        *,
        limit: Natural | None = None,
        every: Seconds = 0.5,
    ) -> Iterator[Sequence[StateEntry]]:
        """Yield the result of `scan`, then the changed entries after each change.

        A removed key is an entry without a value (`there` is False). Each query reads every
        matching entry, so use `prefix` or `limit` for large states.
        """
        before: dict[tuple[int, str], StateEntry] | None = None
        while True:
            now = {
                (each.task, each.key): each for each in self.scan(component, prefix, limit=limit)
            }
            known = before or {}
            changed = [
                each
                for place, each in now.items()
                if place not in known or _other(each, known[place])
            ]
            # With a full page, a missing key may only be beyond the limit.
            if limit is None or len(now) < limit:
                gone = [each for place, each in known.items() if place not in now]
                changed += [
                    StateEntry(each.key, component=component, task=each.task, as_of=each.as_of)
                    for each in gone
                ]
            if changed or before is None:
                yield changed
            before = now
            time.sleep(every)

    def name_of(self, task: int) -> str:
        """Return the task's name as Storm shows it: `count:5`."""
        return self._known().name_of(task)

    def _get(self, component: str, key: str, task: int) -> StateEntry:
        return msgspec.convert(
            self._ask(component, task, {"task": str(task), "key": key}), StateEntry
        )

    def _ask(self, component: str, task: int, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the answer of the newest checkpoint.

        A process that lost its connection to Kafka may still respond for a task that has moved.
        """
        if len(asked := urlencode(query)) > _MOST_CHARACTERS:
            raise ControlError(
                f"{self._name}: the key is too long for a query: it takes {len(asked):,} "
                f"characters of a URL, and the limit is {_MOST_CHARACTERS:,}"
            )
        deadline = time.monotonic() + self._patience
        while True:
            processes = self._having(component, task)
            answers = [
                process.ask(f"state/{quote(component, safe='')}", query, self._headers)
                for process in processes
            ]
            given = [
                page for answer in answers if answer is not None and "as_of" in (page := answer[1])
            ]
            if given:
                return max(given, key=lambda page: int(page["as_of"]["offset"]))
            for answer in answers:
                if answer is not None and answer[0] == _UNKNOWN:
                    raise ControlError(f"{self._name}: {self._not_let_in()}")
                if answer is not None and answer[0] != _ELSEWHERE:
                    raise ControlError(
                        f"{self._name}: {answer[1].get('error', f'HTTP status {answer[0]}')}"
                    )
            self._homes.pop(component, None)
            if time.monotonic() > deadline:
                raise OverdueError(self._not_found(component, task, len(processes)))
            time.sleep(_PAUSE_SECS)

    def _not_let_in(self) -> str:
        given = (
            "the token is not that of its services"
            if self._headers
            else "its services require a token"
        )
        return (
            f"{given}: give its file with --token-file or KSTORM_STATE_TOKEN_FILE, or set "
            "KSTORM_STATE_TOKEN (token=)"
        )

    def _not_found(self, component: str, task: int, processes: int) -> str:
        said = (
            "no process has the task"
            if not processes
            else "its process does not answer, or is recovering the task"
        )
        return (
            f"{self._name}: no process returned the state of {self.name_of(task)} within "
            f"{self._patience:g} s: {said}; `kstorm causes {self._name}` shows which processes of "
            f"{component!r} are missing"
        )

    def _having(self, component: str, task: int) -> Sequence[StatusProcess]:
        index = task - self._known().task_ids(component)[0]
        return [process for process, tasks in self._home(component) if index in tasks]

    def _home(self, component: str) -> Sequence[tuple[StatusProcess, Sequence[int]]]:
        seen, known = self._homes.get(component, (-inf, ()))
        if time.monotonic() - seen > _FRESH_SECS:
            processes = self._askable.processes(component)
            pages = ask_each(processes, "status")
            known = [
                (process, page.get("tasks", ()))
                for process, page in zip(processes, pages, strict=True)
                if page is not None
            ]
            self._homes[component] = time.monotonic(), known
        return known

    def _known(self) -> Outline:
        if self._outline is None:
            self._outline = self._askable.outline()
        return self._outline


def _check_text(what: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"the {what} {text!r:.200} cannot be encoded as UTF-8: {error.reason}"
        ) from None


def _other(one: StateEntry, before: StateEntry) -> bool:
    return (one.value, one.msgpack) != (before.value, before.msgpack)
