"""An idle process wakes up rarely, but at once for new work."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kstorm.runtime.service import idle_rest
from kstorm.runtime.service.idle_rest import IdleRest


def run(work: Callable[[IdleRest], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(work(IdleRest()), 10)

    asyncio.run(limited())


def test_rests_are_short_after_input() -> None:
    async def work(idle: IdleRest) -> None:
        idle.wake()
        await idle.rest(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(idle_rest, "_LONG_SECS", 3600)
        run(work)


def test_input_ends_the_long_rests_of_all_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_rest, "_AWAKE_SECS", 0)
    monkeypatch.setattr(idle_rest, "_LONG_SECS", 3600)

    async def work(idle: IdleRest) -> None:
        resting = [asyncio.ensure_future(idle.rest(0)) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not any(one.done() for one in resting)
        idle.wake()
        await asyncio.gather(*resting)

    run(work)


def test_a_long_rest_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls from other threads wait for its end."""
    monkeypatch.setattr(idle_rest, "_AWAKE_SECS", 0)
    monkeypatch.setattr(idle_rest, "_LONG_SECS", 0.01)

    async def work(idle: IdleRest) -> None:
        await idle.rest(3600)

    run(work)
