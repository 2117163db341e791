"""Asks a running topology what its stateful bolts keep: `kstorm.client.StateClient`.

The rule: what is answered was committed, and each answer says in which checkpoint. Tasks move; while nobody has one, or a process
that has it does not answer, it is asked again, for `patience` seconds.
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

from kstorm.cli.askable import AT_ONCE, Process, ask_each, open_askable
from kstorm.errors import ConfigError, ControlError, OverdueError
from kstorm.inspect.asked import LOGIN_HEADER, Found, Page
from kstorm.inspect.outline import Outline
from kstorm.inspect.owner import likely_values, owner
from kstorm.runtime.service.settings import with_or_without_topology
from kstorm.topology import Topology

_PAUSE_SECS: Final = 0.2
_FRESH_SECS: Final = (
    5.0  # a process that was cut off goes on to answer: others are looked for all the same
)
_PAGE: Final = 1000
_UNKNOWN: Final = 401
_ELSEWHERE: Final = 421
_MOST_CHARACTERS: Final = 7000  # of a query; services read lines of 8190


class StateClient:
    """Reads the state of a topology that runs on this machine (`./run topology`) or on Kubernetes.

        client = StateClient("wordcount")
        client.get("count", "the")             # the value, or None
        for found in client.scan("count", prefix="th"):
            print(found.key, found.read(), found.as_of.time)

    It may be used by one thread at a time.
    """

    def __init__(
        self,
        topology: str | Topology,
        *,
        runs: Path | None = None,
        namespace: str | None = None,
        context: str | None = None,
        token: str | None = None,
        patience: float = 15.0,
    ) -> None:
        """`runs`: the folder of a run of this machine, or of several; `namespace`, `context`: on Kubernetes. Without any of them
        it is one of this machine if there is one of that name. `token`: else `KSTORM_STATE_TOKEN` or the file that
        `KSTORM_STATE_TOKEN_FILE` names. `patience`: seconds to wait for a task that nobody has.

        Raises `ControlError` if there is no such topology, `ConfigError` if it cannot be told which is meant.
        """
        self._name = topology if isinstance(topology, str) else topology.name
        self._askable = open_askable(self._name, runs, namespace, context)
        token = with_or_without_topology(os.environ).state_token if token is None else token
        self._headers = {LOGIN_HEADER: token} if token else {}
        self._patience = patience
        self._outline: Outline | None = None
        self._homes: dict[
            str, tuple[float, Sequence[tuple[Process, Sequence[int]]]]
        ] = {}  # with when that was looked at

    def get(
        self, component: str, key: str, default: Any = None, *, by: Sequence[Any] | None = None
    ) -> Any:
        """The value of a key, or `default`. See `find`; raises `ControlError` besides if several tasks have the key."""
        found = self.find(component, key, by=by)
        if len(found) > 1:
            tasks = ", ".join(str(each.task) for each in found)
            raise ControlError(
                f"several tasks of {component!r} have the key {key!r} ({tasks}): use find, or give by="
            )
        return found[0].read() if found else default

    def find(self, component: str, key: str, *, by: Sequence[Any] | None = None) -> Sequence[Found]:
        """What tasks have under a key; mostly it is one.

        `by`: the values that the bolt's input is grouped by; then the task that gets such tuples is asked, and no other. Without
        it they are taken to be the key itself, or the values that it lists as JSON; if that task has no such key, the others are
        asked.
        Raises `TopologyError` if there is no such component, `ControlError` if it has no state or may not be asked, and
        `OverdueError` if a task was to be found nowhere.
        """
        return [each for each in self.look(component, key, by=by) if each.there]

    def look(self, component: str, key: str, *, by: Sequence[Any] | None = None) -> Sequence[Found]:
        """As `find`, with the answers of tasks that have no such key."""
        _check_text("key", key)
        outline = self._known()
        first = owner(
            outline, component, likely_values(outline, component, key) if by is None else by
        )
        asked = [] if first is None else [self._get(component, key, first)]
        if asked and (asked[0].there or by is not None):
            return asked
        others = [task for task in outline.task_ids(component) if task != first]
        self._home(component)  # once for all of them
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return [*asked, *pool.map(lambda task: self._get(component, key, task), others)]

    def scan(
        self, component: str, prefix: str = "", *, limit: int | None = None
    ) -> Iterator[Found]:
        """Every key that begins with `prefix`, or so many: one task after the other, and of each in the order of the keys.

        It is read in pages of at most a thousand keys. A page is of one checkpoint; what changes meanwhile may be in a later one.
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
                    Page,
                )
                for entry in page.entries:
                    yield Found(
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

    def follow(
        self, component: str, key: str, *, by: Sequence[Any] | None = None, every: float = 0.5
    ) -> Iterator[Sequence[Found]]:
        """What `find` gives, now and whenever it has changed. It is asked every so many seconds: changes between are not seen."""
        before: object = None
        while True:
            found = self.find(component, key, by=by)
            now = [(each.task, each.value, each.msgpack) for each in found]
            if now != before:
                before = now
                yield found
            time.sleep(every)

    def follow_all(
        self, component: str, prefix: str = "", *, limit: int | None = None, every: float = 0.5
    ) -> Iterator[Sequence[Found]]:
        """What `scan` gives, now, and then those keys whose values have changed, whenever some have; one that is gone has no value
        (`there`). Each look reads all of them: give a prefix, or a limit, where there are many."""
        before: dict[tuple[int, str], Found] | None = None
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
            if (
                limit is None or len(now) < limit
            ):  # else a key that is not among them may lie behind them
                gone = [each for place, each in known.items() if place not in now]
                changed += [
                    Found(each.key, component=component, task=each.task, as_of=each.as_of)
                    for each in gone
                ]
            if changed or before is None:
                yield changed
            before = now
            time.sleep(every)

    def name_of(self, task: int) -> str:
        """`count:5`, as Storm shows it."""
        return self._known().name_of(task)

    def _get(self, component: str, key: str, task: int) -> Found:
        return msgspec.convert(self._ask(component, task, {"task": str(task), "key": key}), Found)

    def _ask(self, component: str, task: int, query: Mapping[str, str]) -> dict[str, Any]:
        """An answer that says of which checkpoint it is: of two the newer one, as a process that was cut off may not know yet that
        its task is another's."""
        if len(asked := urlencode(query)) > _MOST_CHARACTERS:
            raise ControlError(
                f"{self._name}: such a key cannot be asked for: it takes {len(asked):,} characters of a URL, "
                f"and {_MOST_CHARACTERS:,} are the most"
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
            "the token that was given is another one than its services have"
            if self._headers
            else "a token is needed"
        )
        return f"{given}: name its file by --token-file or KSTORM_STATE_TOKEN_FILE, or set KSTORM_STATE_TOKEN (token=)"

    def _not_found(self, component: str, task: int, processes: int) -> str:
        said = (
            "no process has it"
            if not processes
            else "its process does not answer, or is recovering it"
        )
        return (
            f"{self._name}: nobody tells the state of {self.name_of(task)} after {self._patience:g} s: {said}; "
            f"`kstorm causes {self._name}` says who of {component!r} is missing"
        )

    def _having(self, component: str, task: int) -> Sequence[Process]:
        index = task - self._known().task_ids(component)[0]
        return [process for process, tasks in self._home(component) if index in tasks]

    def _home(self, component: str) -> Sequence[tuple[Process, Sequence[int]]]:
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
            f"the {what} {text!r:.200} cannot be written as UTF-8: {error.reason}"
        ) from None


def _other(one: Found, before: Found) -> bool:
    return (one.value, one.msgpack) != (before.value, before.msgpack)
