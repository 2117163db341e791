"""`/state` of a service: authorization and answers over HTTP, from a real RocksDB."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest

from kstorm.dev.free_ports import reserve_port
from kstorm.errors import ConfigError
from kstorm.introspection.outline_builder import outline_of
from kstorm.runtime.base.settings import Settings, from_environment
from kstorm.runtime.service.app import make_app
from kstorm.runtime.service.state_pages import add_state_pages
from kstorm.topology import Topology
from tests.unit.introspection.test_key_owner import topology
from tests.unit.runtime.serving import Idle, Serving, run
from tests.unit.runtime.test_stored_state import recovered

TOKEN = "canary-7f3a-0123456789"
ON = {"state_queries": True}
TASKS, HERE = 4, 1  # the bolt's tasks, and the index of the local one
AS_OF = {"offset": 6, "time": 1000.0}


def word_of(task: int, built: Topology) -> str:
    """Returns a word that belongs to a task, by index."""
    from kstorm.introspection.key_owner import owner_of

    told = outline_of(built)
    return next(
        word
        for word in map(str, range(100))
        if owner_of(told, "count", [word]) == told.task_ids("count")[task]
    )


@asynccontextmanager
async def serving(
    folder: Path, settings: dict[str, Any], keeps: bool = True, fields: str = "word"
) -> AsyncIterator[Any]:
    """Serves the pages of a bolt with four tasks, one of them local."""
    built = topology(TASKS, *fields.split())
    table, stored = recovered(folder / "state", HERE)
    port = reserve_port()
    chosen = Settings(
        topology="a:b", data_dir=folder, web_host="127.0.0.1", web_port=port, **settings
    )
    app = make_app("t-count", chosen, Idle())
    driver: Any = SimpleNamespace(
        settings=chosen, topology=built, component="count", stored=stored if keeps else None
    )
    add_state_pages(app, driver)
    await app.start()
    try:
        yield Asking(Serving(app.web, port), table, built)
    finally:
        await app.stop()


class Asking:
    """A client, and the state."""

    def __init__(self, served: Serving, table: Any, built: Topology) -> None:
        self.served, self.table, self.built = served, table, built
        self.first = built.task_ids("count")[0]

    @property
    def here(self) -> int:
        return self.first + HERE

    async def get(self, path: str, *headers: str, host: str = "127.0.0.1:1") -> tuple[int, Any]:
        lines = "".join(f"{line}\r\n" for line in (f"Host: {host}", *headers))
        status, _, body = await self.served.ask(
            f"GET /state/{path} HTTP/1.1\r\n{lines}\r\n".encode()
        )
        return status, json.loads(body)


def asked(
    folder: Path, settings: dict[str, Any], ask: Callable[[Asking], Awaitable[None]], **how: Any
) -> None:
    async def main() -> None:
        async with serving(folder, settings, **how) as asking:
            await ask(asking)

    run(main())


def test_committed_value_is_returned_with_its_version(tmp_path: Path) -> None:
    """A missing value is reported too. A new value appears with the next checkpoint."""

    async def ask(of: Asking) -> None:
        word = word_of(HERE, of.built)
        about = {"component": "count", "key": word, "task": of.here, "as_of": AS_OF}
        status, found = await of.get(f"count/{word}")
        assert (status, found.pop("error")) == (404, f"task {of.here} of 'count' has no such key")
        assert found == about
        of.table.keep(HERE, [(word.encode(), b"\x03")], 9, 2000.0)
        later = about | {"value": 3, "as_of": {"offset": 9, "time": 2000.0}}
        assert await of.get(f"count/{word}") == (200, later)
        assert await of.get(f"count?key={word}&task={of.here}") == (200, later)

    asked(tmp_path, ON, ask)


@pytest.mark.parametrize("key", ["a/b", "..", "", "?&#%", "ß \u2028", "%2F", '["x",1]'])
def test_every_key_can_be_queried(tmp_path: Path, key: str) -> None:
    async def ask(of: Asking) -> None:
        of.table.keep(HERE, [(key.encode(), b"\x03")], 9, 2000.0)
        status, found = await of.get(f"count?key={quote(key, safe='')}&task={of.here}")
        assert (status, found["key"], found["value"]) == (200, key, 3)

    asked(tmp_path, ON, ask)


def test_the_task_is_the_groupings_choice(tmp_path: Path) -> None:
    """The choice depends on the key or on the named values.

    For another task, the answer has its number.
    """

    async def ask(of: Asking) -> None:
        elsewhere = word_of(3, of.built)
        status, found = await of.get(f"count/{elsewhere}")
        assert (status, found["task"]) == (421, of.first + 3)
        assert found["error"] == f"task {of.first + 3} of 'count' does not run in this process"
        own = quote(json.dumps([word_of(HERE, of.built)]))
        assert (await of.get(f"count/{elsewhere}?by={own}"))[1]["task"] == of.here

    asked(tmp_path, ON, ask)


def test_task_is_required_if_the_grouping_does_not_determine_it(tmp_path: Path) -> None:
    async def ask(of: Asking) -> None:
        status, found = await of.get("count/the")
        assert status == 400
        assert "do not determine which task has the key" in found["error"]
        assert (await of.get(f"count/the?task={of.here}"))[0] == 404

    asked(tmp_path, ON, ask, fields="word day")


def test_keys_are_returned_in_pages(tmp_path: Path) -> None:
    """The keys are sorted. Each page names the start of the next one."""

    async def ask(of: Asking) -> None:
        of.table.keep(
            HERE, [(key.encode(), b"\xc4\x01x") for key in ("a", "b1", "b2", "b3")], 9, 2000.0
        )
        first = await of.get(f"count?task={of.here}&prefix=b&limit=2")
        shown = [{"key": key, "msgpack": "xAF4"} for key in ("b1", "b2")]
        as_of = {"offset": 9, "time": 2000.0}
        assert first == (
            200,
            {"component": "count", "task": of.here, "as_of": as_of, "entries": shown, "next": "b2"},
        )
        _, rest = await of.get(f"count?task={of.here}&prefix=b&limit=2&after=b2")
        assert ([each["key"] for each in rest["entries"]], rest["next"]) == (["b3"], None)
        assert len((await of.get(f"count?task={of.here}&limit=0"))[1]["entries"]) == 1
        for wrong in (
            "limit=x",
            "task=99",
            "task=-1",
            "prefix=b",
            f"task={of.here}&limit=99999999999",
        ):
            assert (await of.get(f"count?{wrong}"))[0] == 400, wrong
        assert (await of.get(f"count?key=a&by={{&task={of.here}"))[0] == 200
        assert (await of.get("count?key=a&by={"))[0] == 400

    asked(tmp_path, ON, ask)


def test_state_queries_are_off_by_default(tmp_path: Path) -> None:
    async def ask(of: Asking) -> None:
        assert await of.get("count/the") == (
            403,
            {
                "error": "state queries are disabled here: KSTORM_STATE_QUERIES is not true "
                "(stateQueries in the chart)"
            },
        )

    asked(tmp_path, {}, ask)


def test_it_wants_the_token(tmp_path: Path) -> None:
    """Every client needs it, as a bearer token or in a header that the API server's proxy forwards."""

    async def ask(of: Asking) -> None:
        path = f"count/the?task={of.here}"
        for given in (
            (),
            ("Authorization: Bearer wrong",),
            ("X-Kstorm-Token: \xff",),
            (f"Authorization: Basic {TOKEN}",),
        ):
            status, found = await of.get(path, *given)
            assert status == 401
            assert "canary" not in str(found)
        for right in (f"Authorization: Bearer {TOKEN}", f"X-Kstorm-Token: {TOKEN}"):
            assert (await of.get(path, right, host="wordcount-count-0"))[0] == 404

    asked(tmp_path, {**ON, "state_token": TOKEN}, ask)


def test_without_a_token_only_this_machine_is_answered(tmp_path: Path) -> None:
    """A host name other than this machine's is refused, even if it resolves to 127.0.0.1."""

    async def ask(of: Asking) -> None:
        assert (await of.get(f"count/the?task={of.here}", host="evil.example:6066"))[0] == 421
        assert (await of.get(f"count/the?task={of.here}", host="localhost:6066"))[0] == 404

    asked(tmp_path, ON, ask)


def test_process_serves_only_its_own_component(tmp_path: Path) -> None:
    """Another component is refused. A component without state reports that."""

    async def ask(of: Asking) -> None:
        assert await of.get("sink/the") == (421, {"error": "this process runs 'count', not 'sink'"})
        status, found = await of.get("count/the")
        assert (status, found) == (404, {"error": "the component 'count' keeps no state"})

    asked(tmp_path, ON, ask, keeps=False)


GOOD = {"KSTORM_TOPOLOGY": "examples.wordcount.topology:topology", "KSTORM_STATE_QUERIES": "true"}


def test_public_address_requires_a_token(tmp_path: Path) -> None:
    """The default address is all interfaces."""
    with pytest.raises(
        ConfigError,
        match=r"other machines can reach KSTORM_WEB_HOST=0.0.0.0: set KSTORM_STATE_TOKEN_FILE",
    ):
        from_environment(GOOD)
    assert from_environment({**GOOD, "KSTORM_WEB_HOST": "127.0.0.1"}).state_queries
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert from_environment({**GOOD, "KSTORM_STATE_TOKEN_FILE": str(file)}).state_token == TOKEN


@pytest.mark.parametrize("token", ["canary-short", "canary 0123456789abc", "canaryß0123456789"])
def test_a_token_that_will_not_do_is_not_quoted(token: str) -> None:
    with pytest.raises(
        ConfigError, match="KSTORM_STATE_TOKEN: give a token of at least 16"
    ) as refused:
        from_environment({**GOOD, "KSTORM_STATE_TOKEN": token})
    assert "canary" not in str(refused.value)
    assert "canary" not in repr(Settings(topology="a:b", state_token=token))
