"""The contract with the installed Faust and Mode.

The private members that kstorm uses still exist, and Faust still uses them as
`kstorm.runtime.faust_private` describes.
"""

import ast
import asyncio
import inspect
from pathlib import Path
from typing import Any

import faust
import mode
import pytest
from aiohttp.web import AppRunner
from faust.stores.rocksdb import Store
from faust.web.drivers.aiohttp import Web

import kstorm
from kstorm.runtime import faust_private
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.service.app import WorkChannel, make_app
from kstorm.runtime.service.web_server import PageServer

_HOME = Path(kstorm.__file__).parent
_ALLOWED = _HOME / "runtime" / "faust_private.py"


def app(folder: Path) -> Any:
    service: Any = None
    return make_app("contract", Settings(topology="a:b", data_dir=folder), service)


def source(of: object) -> str:
    return inspect.getsource(of)  # type: ignore[arg-type]


def test_an_app_gets_its_web_server_from_the_hook(tmp_path: Path) -> None:
    made = app(tmp_path)
    assert made.web is made.web
    assert isinstance(made.web, PageServer)


def test_a_web_server_has_a_runner(tmp_path: Path) -> None:
    assert isinstance(faust_private.runner_of(app(tmp_path).web), AppRunner)


@pytest.mark.parametrize(
    ("caller", "calls"),
    [
        (mode.Worker._schedule_shutdown, "self._stop_on_signal(signal)"),
        (mode.Worker._shutdown_loop, "self._gather_all()"),
        (mode.Worker._shutdown_loop, "self._sentinel_task()"),
    ],
)
def test_a_worker_calls_the_hooks(caller: object, calls: str) -> None:
    assert calls in source(caller)


@pytest.mark.parametrize("hook", ["_stop_on_signal", "_gather_all", "_sentinel_task"])
def test_hooks_have_the_kind_and_arguments_of_the_original(hook: str) -> None:
    ours, theirs = (getattr(owner, hook) for owner in (faust_private.OrderlyWorker, faust.Worker))
    assert ours is not theirs
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs)


def test_a_store_opens_partitions_into_one_mapping(tmp_path: Path) -> None:
    store = app(tmp_path).Table("t", partitions=2, options={"driver": "rocksdict"}).data
    assert isinstance(store, Store)
    opened = faust_private.open_partitions(store)
    assert opened == {}
    database = faust_private.open_partition(store, 1)
    assert opened == {1: database}
    assert faust_private.open_partitions(store) is opened
    opened.pop(1).close()


async def test_readers_of_a_channel_share_its_queue(tmp_path: Path) -> None:
    """The test uses public members only. Faust clones a channel for the agent and for its stream."""
    channel = WorkChannel(app(tmp_path), maxsize=0)
    reader = aiter(channel.clone(is_iterator=False).clone(is_iterator=True))
    channel.queue.put_nowait("work")
    assert await asyncio.wait_for(anext(reader), 10) == "work"


def test_no_other_module_uses_private_members_of_faust() -> None:
    """It must not override a private member, or read one of a Faust object."""
    theirs = {
        name
        for owner in (
            faust.App,
            faust.Worker,
            faust.Channel,
            faust.Stream,
            Web,
            Store,
            mode.Service,
        )
        for name in dir(owner)
        if name.startswith("_") and not name.startswith("__")
    }
    found = []
    for path in sorted((_HOME / "runtime").rglob("*.py")):
        text = path.read_text()
        if path == _ALLOWED or not ("faust" in text or "mode" in text):
            continue
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.ClassDef)
                and any(_is_theirs(base) for base in node.bases)
                and (
                    overridden := [
                        item.name
                        for item in node.body
                        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
                        and item.name in theirs
                    ]
                )
            ):
                found.append((path.name, node.name, overridden))
            if (
                isinstance(node, ast.Attribute)
                and node.attr in theirs
                and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
            ):
                found.append((path.name, node.attr, [str(node.lineno)]))
    assert found == []


def _is_theirs(base: ast.expr) -> bool:
    name = ast.unparse(base)
    return name.startswith(("faust.", "mode.")) or name in (
        "Web",
        "BootStrategy",
        "AppWithOwnWeb",
        "OrderlyWorker",
    )
