"""Faults of the servers, and of the network between a process and the broker."""

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from tests.chaos.faults import Fault, HoldFor, Steps
from tests.chaos.proxy import Proxy
from tests.chaos.testbed import Testbed

OUTAGE_SECS: Final = 60.0
BROKER_AWAY_SECS: Final = 300.0
CUT_SECS: Final = 15.0
SLOW_SECS: Final = 20.0
DELAY_SECS: Final = 0.3


def restart_broker(stage: Testbed, rng: random.Random) -> Steps:
    """Stop a broker with SIGTERM, and start it again."""
    broker = stage.kafka.pick(rng)
    return _outage(broker.stop, 0, broker.start)


def kill_broker(stage: Testbed, rng: random.Random) -> Steps:
    """Kill a broker with SIGKILL, and start it again."""
    broker = stage.kafka.pick(rng)
    return _outage(broker.kill, 0, broker.start)


def lose_broker(stage: Testbed, rng: random.Random) -> Steps:
    """Take a broker down for longer than any timeout. With three, one can be spared."""
    broker = stage.kafka.pick_one_to_lose(rng)
    return _outage(broker.kill, BROKER_AWAY_SECS, broker.start)


def restart_zookeeper(stage: Testbed, rng: random.Random) -> Steps:
    """Restart ZooKeeper before sessions expire."""
    return _outage(stage.zookeeper.stop, 0, stage.zookeeper.start)


def lose_zookeeper(stage: Testbed, rng: random.Random) -> Steps:
    """Take ZooKeeper down for much longer than any session."""
    return _outage(stage.zookeeper.kill, OUTAGE_SECS, stage.zookeeper.start)


def cut(stage: Testbed, rng: random.Random) -> Steps:
    """Block all traffic between a process and the broker."""
    proxy = _one_of(stage.proxies, rng)
    return _outage(proxy.cut, CUT_SECS, proxy.heal)


def slow(stage: Testbed, rng: random.Random) -> Steps:
    """Delay all traffic between a process and the broker."""
    proxy = _one_of(stage.proxies, rng)
    return _outage(partial(proxy.slow, DELAY_SECS), SLOW_SECS, proxy.heal)


def _no_way_around(stage: Testbed) -> str:
    return "" if stage.proxies else "processes reach three brokers without a proxy"


OUTAGES: Final = [
    Fault("broker-restart", "the broker is stopped by SIGTERM and started again", restart_broker),
    Fault("broker-kill", "SIGKILL to the broker, which is then started again", kill_broker),
    Fault(
        "broker-outage",
        f"SIGKILL to the broker, which is away for {BROKER_AWAY_SECS / 60:.0f} minutes",
        lose_broker,
    ),
    Fault("zookeeper-restart", "ZooKeeper is stopped and started again", restart_zookeeper),
    Fault(
        "zookeeper-outage",
        f"SIGKILL to ZooKeeper, which is away for {OUTAGE_SECS:.0f} s",
        lose_zookeeper,
    ),
    Fault(
        "network-cut",
        f"nothing passes between a process and the broker for {CUT_SECS:.0f} s",
        cut,
        _no_way_around,
    ),
    Fault(
        "network-delay",
        f"traffic between a process and the broker is {DELAY_SECS * 1000:.0f} ms late in each direction for {SLOW_SECS:.0f} s",
        slow,
        _no_way_around,
    ),
]


def _outage(begin: Callable[[], None], seconds: float, end: Callable[[], object]) -> Steps:
    """Keep something down or degraded for `seconds`."""
    begin()
    try:
        yield HoldFor(seconds)
    finally:
        end()


def _one_of(proxies: Mapping[str, Proxy], rng: random.Random) -> Proxy:
    return proxies[rng.choice(sorted(proxies))]
