"""Operators' actions on a topology, stored forever as JSON in the topic `<topology>.__events`.

Events contain no message data.
"""

import msgspec

from kstorm.texts import decode_json, readable


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record of the topic."""

    at: int
    """End time, in ms since 1970."""
    who: str
    """The user and the machine, such as `anna@laptop`."""
    verb: str
    """The command, such as `discard`, `deactivate` or `offsets set`."""
    what: str = ""
    """The object of the action, if it is not the whole topology."""
    note: str = ""
    """The operator's comment."""
    outcome: str = ""


def encode_event(event: Event) -> bytes:
    """Return the record value. Each text is cut to 2000 characters."""
    cut = {
        name: readable(getattr(event, name)) for name in ("who", "verb", "what", "note", "outcome")
    }
    return msgspec.json.encode(msgspec.structs.replace(event, **cut))


def decode_event(data: bytes) -> Event:
    """Decode an event. Raises `FrameError` if the record is not one."""
    return decode_json(data, Event, "an event")
