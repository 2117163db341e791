"""The twelve troubles: how each begins and ends, and what its name must contain."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from confluent_kafka import Producer

from kstorm.errors import LocalError
from tests.chaos.small_disk import fill_disk
from tests.troubles.feed import Mix, message
from tests.troubles.stage import SMALL_DISK, WITH_LOGIN, Stage
from tests.troubles.topology import NAME, SOURCE

_SEND_SECS: Final = 30.0
_OPEN_MS: Final = 120_000


class _Injection(Protocol):
    def __call__(self, stage: Stage) -> Iterator[None]: ...


@dataclass(frozen=True, slots=True)
class Trouble:
    name: str
    says: str
    """Its cause, in plain words."""
    named: str
    """Pattern of a sentence that names the trouble and its place."""
    inject: _Injection
    """A generator that causes the trouble, yields, and ends it."""

    @contextmanager
    def caused(self, stage: Stage) -> Iterator[None]:
        """Cause the trouble for the duration of the block."""
        injection = self.inject(stage)
        next(injection)
        try:
            yield
        finally:
            next(injection, None)


def _poison(stage: Stage) -> Iterator[None]:
    stage.feed.send_poison()
    yield


def _dead_kafka(stage: Stage) -> Iterator[None]:
    stage.kafka.kill()
    yield
    stage.kafka.start()


def _full_disk(stage: Stage) -> Iterator[None]:
    if stage.no_small_disk:
        raise LocalError(stage.no_small_disk)
    filler = stage.data_of(SMALL_DISK) / "filler"
    fill_disk(filler)
    yield
    filler.unlink()


def _stuck_transaction(stage: Stage) -> Iterator[None]:
    producer = Producer(
        {
            "bootstrap.servers": stage.kafka.bootstrap,
            "transactional.id": "stuck",
            "transaction.timeout.ms": _OPEN_MS,
            "log_level": 0,
        }
    )
    producer.init_transactions(_SEND_SECS)
    producer.begin_transaction()
    producer.produce(SOURCE, message("never-committed"), partition=0)
    producer.flush(_SEND_SECS)
    yield
    producer.abort_transaction(_SEND_SECS)


def _mixed(mix: Mix) -> _Injection:
    def inject(stage: Stage) -> Iterator[None]:
        before, stage.feed.mix = stage.feed.mix, mix
        yield
        stage.feed.mix = before

    return inject


def _missing_acker(stage: Stage) -> Iterator[None]:
    acker = stage.worker("acker-0").process
    acker.stop(0)
    yield
    acker.start()


def _wrong_login(stage: Stage) -> Iterator[None]:
    stage.set_password("wrong")
    stage.worker(WITH_LOGIN).process.kill()
    yield
    stage.set_password()


def _lost_disk(stage: Stage) -> Iterator[None]:
    process = stage.worker("count-1").process
    process.stop(0)
    shutil.rmtree(stage.data_of("count-1"))
    process.start()
    yield


def _deactivated(stage: Stage) -> Iterator[None]:
    _succeed(stage, "deactivate")
    yield
    _succeed(stage, "activate")


def _paused(stage: Stage) -> Iterator[None]:
    process = stage.worker("check-0").process
    process.pause()
    yield
    process.resume()


def _succeed(stage: Stage, verb: str) -> None:
    done = stage.kstorm(verb, NAME)
    if done.returncode:
        raise LocalError(f"kstorm {verb} failed: {done.stderr}")


TROUBLES: Final = (
    Trouble(
        "poison message",
        "one message on which a bolt always raises",
        rf"{SOURCE}/0/\d+.*(ValueError|check)|check.*ValueError|dead letters?\D{{0,3}}[1-9]",
        _poison,
    ),
    Trouble(
        "dead Kafka",
        "SIGKILL to the broker",
        r"Kafka (does not answer|has been unreach)",
        _dead_kafka,
    ),
    Trouble(
        "full disk",
        f"the disk of {SMALL_DISK} is full",
        rf"{SMALL_DISK}.*(disk.* full|[Nn]o space)",
        _full_disk,
    ),
    Trouble(
        "stuck transaction",
        "a producer leaves a transaction open in the source topic",
        r"transaction.*(open|stuck)|stuck transaction",
        _stuck_transaction,
    ),
    Trouble(
        "skewed key",
        "all messages have the same key",
        r"count: one of its 4 tasks.*key",
        _mixed(Mix(rate=400, key="hot")),
    ),
    Trouble(
        "late tuples",
        "a fifth of the messages is one hour late",
        r"recent: [\d.]+ % of its tuples are late",
        _mixed(Mix(late_share=0.2)),
    ),
    Trouble(
        "slow sink",
        "the sink takes 25 ms for a message, at 60 messages per second",
        r"store is the bottleneck",
        _mixed(Mix(cost=0.025)),
    ),
    Trouble(
        "missing acker",
        "SIGKILL to the acker, which is not restarted",
        r"acker.*(0 of 1|does not (run|answer)|not running|ended)|no process.*acker",
        _missing_acker,
    ),
    Trouble(
        "wrong login",
        f"{WITH_LOGIN} restarts with a wrong password for Kafka",
        rf"{WITH_LOGIN}.*(login|password|authenticat)",
        _wrong_login,
    ),
    Trouble(
        "lost disk",
        "SIGKILL to count-1, which restarts without its folder",
        r"count-1.*recover",
        _lost_disk,
    ),
    Trouble("deactivated", "`kstorm deactivate`", r"[Dd]eactivated", _deactivated),
    Trouble("paused process", "SIGSTOP to check-0", r"check-0.*(paused|SIGSTOP)", _paused),
)
