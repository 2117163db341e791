"""Bytes of Protobuf as no library would write them."""


def number(value: int) -> bytes:
    """A varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def long(tag: int, content: bytes) -> bytes:
    """A field that says how long it is."""
    return number(tag << 3 | 2) + number(len(content)) + content
