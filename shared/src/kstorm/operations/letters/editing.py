"""Check whether a dead letter's message can be replayed with another value."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kstorm.errors import ControlError, NotYetError
from kstorm.operations.letters.replaying import replay_request, replayable, why_not_editable
from kstorm.operations.letters.selection import NumberedLetter
from kstorm.runtime.base.settings import Settings
from kstorm.topology import Topology

if TYPE_CHECKING:
    from kstorm.kafka import KafkaSpout
    from kstorm.kafka.scheme import Values


def check_changed(one: NumberedLetter, value: bytes) -> None:
    """Raise `ControlError` if a letter's new value is its old one."""
    if value == one.letter.value:
        raise ControlError(
            f"{one.number} already has this value, and no replay was requested: use `kstorm dlq "
            "replay` to try it again"
        )


def spout_of(topology: Topology, one: NumberedLetter) -> "KafkaSpout":
    """Return the message's spout. Raises `ControlError` if it cannot replay another value."""
    from kstorm.kafka import KafkaSpout, ProcessingGuarantee

    name, number = one.letter.component, one.number
    spec = topology.components.get(name)
    spout = None if spec is None else spec.component
    by_kafka = isinstance(spout, KafkaSpout)
    why = why_not_editable(
        one, topology.name, exactly_once=topology.config.exactly_once, by_kafka=by_kafka
    )
    if why or not isinstance(spout, KafkaSpout):
        raise ControlError(f"{number} cannot be edited: {why}")
    guarantee = spout.spout_config.processing_guarantee
    if guarantee is not ProcessingGuarantee.AT_LEAST_ONCE:
        raise ControlError(
            f"{number} cannot be edited: {name!r} replays nothing, because its "
            f"processing_guarantee is {guarantee}"
        )
    return spout


def check_replayable(
    settings: Settings, topology: str, one: NumberedLetter, *, force: bool
) -> None:
    _, others = replayable(settings, topology, [one], force=force)
    for why in others:
        raise ControlError(f"{one.number} cannot be edited: {why}")


def tuples_of(spout: "KafkaSpout", one: NumberedLetter, value: bytes) -> "Sequence[Values]":
    """Return the tuples that the scheme makes of the value. Raises `ControlError` if it cannot."""
    from kstorm.kafka.scheme import close_scheme, deserializer, open_scheme

    config = spout.spout_config
    message = replay_request(replace(one, letter=replace(one.letter, value=value))).message
    wanted = len(config.scheme.output_fields.names)
    open_scheme(config.scheme)
    try:
        tuples: list[Values] = list(
            deserializer(config.scheme, config.max_message_bytes)(message) or ()
        )
        widths = {len(values) for values in tuples}
    except NotYetError as error:
        raise ControlError(
            f"the scheme cannot check the new value yet ({error}); no replay was requested"
        ) from None
    # Any exception from a user's scheme means that the scheme cannot read the value.
    except Exception as error:  # noqa: BLE001
        told = f"{type(error).__name__}: {error}"
        raise ControlError(
            f"the scheme of {one.letter.component!r} cannot read the new value: {told}; no replay "
            "was requested"
        ) from None
    finally:
        close_scheme(config.scheme)
    if widths - {wanted}:
        raise ControlError(
            f"the scheme makes tuples of {sorted(widths)} values from it, not of {wanted}; no "
            "replay was requested"
        )
    return tuples
