"""Protobuf bytes that no library writes."""


def number(value: int) -> bytes:
    """Encode a varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def long(tag: int, content: bytes) -> bytes:
    """Encode a length-delimited field."""
    return number(tag << 3 | 2) + number(len(content)) + content
