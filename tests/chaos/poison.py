"""Bad input: records that cannot be decoded, that a bolt always refuses, or that are too large."""

import random
from typing import Final

from kstorm.errors import KstormError, TupleTooLargeError
from tests.chaos.faults import Fault, HoldFor, HoldUntil, Steps
from tests.chaos.feed import VOCABULARY
from tests.chaos.testbed import Testbed
from tests.chaos.topology import LARGE, LARGE_BYTES, PARTITIONS, RAISE, RETRIES, SOURCE

_NO_FRAME: Final = b"\xc1 this is no frame"
_NO_TEXT: Final = b"\xff\xfe this is no UTF-8"


def post_no_frame(stage: Testbed, rng: random.Random) -> Steps:
    """Post an invalid frame on each kind of internal topic."""
    topology = stage.processes.topology
    topics = [topology.bolt_topic(bolt) for bolt in stage.subject.framed]
    for topic in (*topics, topology.acker_topic, topology.completions_topic("messages")):
        stage.post_poison(topic, _NO_FRAME, rng.randrange(topology.topics()[topic]))
    yield HoldFor(0)


def post_no_text(stage: Testbed, rng: random.Random) -> Steps:
    """Post a source record that the spout's scheme cannot decode."""
    stage.post_poison(SOURCE, _NO_TEXT, rng.randrange(PARTITIONS))
    yield HoldFor(0)


def post_raising(stage: Testbed, rng: random.Random) -> Steps:
    """Post a message on which a bolt raises whenever it is replayed or retried."""
    stage.post_parted(
        SOURCE, _around(RAISE, stage, rng), rng.randrange(PARTITIONS), stage.subject.raising
    )
    yield HoldFor(0)


def post_large(stage: Testbed, rng: random.Random) -> Steps:
    """Post a message for which a bolt emits a value that is too large. Its process reports it."""
    parted = stage.subject.large
    assert parted is not None
    stage.post_parted(SOURCE, _around(LARGE, stage, rng), rng.randrange(PARTITIONS), parted)
    yield HoldUntil(
        lambda: _says(stage, "split", TupleTooLargeError), "the error about the size is shown", 60
    )


def _around(word: str, stage: Testbed, rng: random.Random) -> bytes:
    """Return a message with a bad word between two good ones, which are counted as usual."""
    before, after = rng.sample(VOCABULARY, 2)
    return stage.subject.bad(stage.new_id(), f"{before} {word} {after}").encode()


def _says(stage: Testbed, component: str, error: type[KstormError]) -> bool:
    statuses = (worker.status() for worker in stage.processes.of(component))
    return any(status["last_error"] == error.__name__ for status in statuses if status is not None)


POISONS: Final = [
    Fault(
        "poison-frame", "an invalid frame on the topics of bolts, acker and spout", post_no_frame
    ),
    Fault("poison-source", "a source record that cannot be decoded", post_no_text),
    Fault(
        "poison-raise",
        f"a message on which a bolt always raises, retried {RETRIES} times",
        post_raising,
    ),
    Fault(
        "poison-large",
        f"a message for which a bolt emits a value of {LARGE_BYTES / 1e6:.0f} MB",
        post_large,
        fits=lambda subject: subject.large is not None,
    ),
]
