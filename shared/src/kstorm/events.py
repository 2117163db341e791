"""What operators do to a topology, as the topic `<topology>.__events` keeps it for ever: JSON, and nothing of any message."""

import msgspec

from kstorm.texts import decode_json, readable


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record of the topic."""

    at: int
    """When it was over, in ms since 1970."""
    who: str
    """The user and the machine: `anna@laptop`."""
    verb: str
    """The command: `discard`, `deactivate`, `offsets set`."""
    what: str = ""
    """On what, where that is not the whole topology."""
    note: str = ""
    """What the operator said to it."""
    outcome: str = ""


def encode_event(event: Event) -> bytes:
    """The record's value; a text is cut to 2000 characters."""
    cut = {
        name: readable(getattr(event, name)) for name in ("who", "verb", "what", "note", "outcome")
    }
    return msgspec.json.encode(msgspec.structs.replace(event, **cut))


def decode_event(data: bytes) -> Event:
    """Reads an event back; raises `FrameError` if it is none."""
    return decode_json(data, Event, "no event")
