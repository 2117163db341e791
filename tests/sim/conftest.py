"""`pytest tests/sim --seed N` replays one schedule; `--schedules N` runs another number of them."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the simulation."""
    parser.addoption("--seed", type=int, default=None, help="replay the schedule of this seed, and no other")
    parser.addoption("--schedules", type=int, default=2000, help="how many schedules to run (default 2000)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Spreads the schedules over tests of a hundred."""
    if "seeds" not in metafunc.fixturenames:
        return
    option = metafunc.config.getoption
    seed, count = option("--seed", default=None), option("--schedules", default=2000)
    chunks = (
        [range(seed, seed + 1)] if seed is not None else [range(n, min(n + 100, count)) for n in range(0, count, 100)]
    )
    metafunc.parametrize("seeds", chunks, ids=[f"{chunk[0]}-{chunk[-1]}" for chunk in chunks])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--seed` nothing else of this folder runs."""
    if config.getoption("--seed", default=None) is not None:
        items[:] = [
            item for item in items if "seeds" in getattr(item, "fixturenames", ()) or "tests/sim" not in item.nodeid
        ]
