"""A service's pages of state: `/state/COMPONENT/KEY` and `/state/COMPONENT`. Their statuses are:

200   the value, or a page of keys, and the checkpoint that they are read from
400   invalid request
401   no token, or the wrong one
403   state queries are disabled
404   the key does not exist at that checkpoint, or the component has no state
421   another process has the task or runs the component, or the task is still being recovered
"""

import hmac
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from kstorm.core.recovery import LocalCopy
from kstorm.errors import KstormError
from kstorm.introspection.key_owner import likely_values, owner_of
from kstorm.introspection.outline import Outline
from kstorm.introspection.outline_builder import outline_of
from kstorm.introspection.state_query import LOGIN_HEADER, StateVersion, json_of_value
from kstorm.runtime.base.loopback import is_loopback
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.service.app import ChannelApp
from kstorm.runtime.service.driver import Driver
from kstorm.runtime.store.stored_state import StoredState
from kstorm.topology.keys import listed_values

MOST_ENTRIES: Final = 1000
_ENTRIES: Final = 100

Answer = tuple[int, dict[str, Any]]


class _RefusedError(Exception):
    """Raised to refuse a request."""

    def __init__(self, status: int, error: str, **more: Any) -> None:
        super().__init__(error)
        self.answer: Answer = status, {"error": error, **more}


class StatePages:
    """Responds to requests. `stored` is None if the process's component has no state."""

    def __init__(
        self, settings: Settings, outline: Outline, component: str, stored: StoredState | None
    ) -> None:
        self._settings, self._outline, self._component, self._stored = (
            settings,
            outline,
            component,
            stored,
        )

    def answer(
        self, component: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> Answer:
        """Respond to a request: for a key if `query` has one, otherwise for a page of keys."""
        try:
            self._check(headers)
            stored = self._stored_of(component)
            return self._get(stored, query) if "key" in query else self._scan(stored, query)
        except _RefusedError as refused:
            return refused.answer

    def _check(self, headers: Mapping[str, str]) -> None:
        if not self._settings.state_queries:
            raise _RefusedError(
                403,
                "state queries are disabled here: KSTORM_STATE_QUERIES is not true (stateQueries "
                "in the chart)",
            )
        token = self._settings.state_token
        if token:
            bearer = headers.get("Authorization", "").removeprefix("Bearer ").strip()
            given = headers.get(LOGIN_HEADER, "") or bearer
            if not hmac.compare_digest(given.encode(errors="replace"), token.encode()):
                raise _RefusedError(
                    401, f"give the token in Authorization: Bearer, or in {LOGIN_HEADER}"
                )
        elif not is_loopback(urlsplit(f"//{headers.get('Host', '')}").hostname or ""):
            # Otherwise any website could read the state in a browser, with its own host name that
            # resolves to this machine.
            raise _RefusedError(
                421, "without a token, only localhost and 127.0.0.1 may query the state"
            )

    def _stored_of(self, component: str) -> StoredState:
        if component != self._component:
            raise _RefusedError(421, f"this process runs {self._component!r}, not {component!r}")
        if self._stored is None:
            raise _RefusedError(404, f"the component {component!r} keeps no state")
        return self._stored

    def _get(self, stored: StoredState, query: Mapping[str, str]) -> Answer:
        key = query["key"]
        task = self._task(query, lambda: self._owner(key, query.get("by")))
        copy = self._copy(stored, task)
        found = stored.get(self._index(task), key)
        about = {"component": self._component, "key": key, "task": task, "as_of": _as_of(copy)}
        if found is None:
            return 404, {**about, "error": f"task {task} of {self._component!r} has no such key"}
        return 200, {**about, **json_of_value(key, found)}

    def _scan(self, stored: StoredState, query: Mapping[str, str]) -> Answer:
        task = self._task(query, self._only_task)
        copy = self._copy(stored, task)
        most = max(1, min(_number("limit", query.get("limit", str(_ENTRIES))), MOST_ENTRIES))
        found = stored.page(self._index(task), query.get("prefix", ""), query.get("after"), most)
        return 200, {
            "component": self._component,
            "task": task,
            "as_of": _as_of(copy),
            "entries": [{"key": key, **json_of_value(key, value)} for key, value in found.pairs],
            "next": found.pairs[-1][0] if found.more else None,
        }

    def _task(self, query: Mapping[str, str], otherwise: Any) -> int:
        task: int = _number("task", query["task"]) if "task" in query else otherwise()
        tasks = self._outline.task_ids(self._component)
        if task not in tasks:
            raise _RefusedError(
                400,
                f"{self._component!r} has no task {task}: its tasks are {tasks[0]} to {tasks[-1]}",
            )
        return task

    def _owner(self, key: str, by: str | None) -> int:
        try:
            values = likely_values(self._outline, self._component, key) if by is None else _list(by)
            task = owner_of(self._outline, self._component, values)
        except KstormError as error:
            raise _RefusedError(400, str(error)) from None
        if task is None:
            raise _RefusedError(
                400,
                f"the groupings of {self._component!r} do not determine which task has the key: "
                "give task=N",
            )
        return task

    def _only_task(self) -> int:
        tasks = self._outline.task_ids(self._component)
        if len(tasks) > 1:
            raise _RefusedError(
                400, f"{self._component!r} has the tasks {tasks[0]} to {tasks[-1]}: give task=N"
            )
        return tasks[0]

    def _index(self, task: int) -> int:
        return task - self._outline.task_ids(self._component)[0]

    def _copy(self, stored: StoredState, task: int) -> LocalCopy:
        copy = stored.copy(self._index(task))
        if copy is None:
            raise _RefusedError(
                421, f"task {task} of {self._component!r} does not run in this process", task=task
            )
        return copy


def add_state_pages(app: ChannelApp, driver: Driver[Any]) -> None:
    """Add the pages to the app. Keys with a slash, or that do not fit into a URL, are passed in
    `?key=`."""
    pages = StatePages(
        driver.settings, outline_of(driver.topology), driver.component, driver.stored
    )

    def say(view: Any, answer: Answer) -> Any:
        status, found = answer
        headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
        return view.bytes(msgspec.json.encode(found) + b"\n", status=status, headers=headers)

    @app.page("/state/{component}")  # type: ignore[untyped-decorator]
    async def state(view: Any, request: Any, component: str) -> Any:
        return say(view, pages.answer(component, request.query, request.headers))

    @app.page("/state/{component}/{key:.+}")  # type: ignore[untyped-decorator]
    async def state_of_key(view: Any, request: Any, component: str, key: str) -> Any:
        return say(view, pages.answer(component, {**request.query, "key": key}, request.headers))


def _as_of(copy: LocalCopy) -> StateVersion:
    return StateVersion(copy.reached, copy.current)


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise _RefusedError(400, f"{name}={text}: give a whole number")
    return int(text)


def _list(text: str) -> list[Any]:
    try:
        return listed_values(text)
    except ValueError:
        raise _RefusedError(
            400, f"by={text}: give the values that tuples are grouped by as a JSON list"
        ) from None
