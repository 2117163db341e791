"""An independent reading of JSON values in columns, and generated values of each type.

It shares nothing with the pipeline's readers. Numbers are fractions, times are counted in
microseconds from the calendar's rules, and base64 is decoded by its alphabet.
"""

import calendar
import json
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

TYPES = {
    "t": "TINYINT",
    "h": "SMALLINT",
    "i": "INT",
    "b": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "m": "DECIMAL(18,2)",
    "n": "DECIMAL(38,18)",
    "o": "BOOLEAN",
    "s": "STRING",
    "a": "TIMESTAMP",
    "w": "TIMESTAMP_NTZ",
    "y": "DATE",
    "x": "BINARY",
}
"""Columns by name."""
BAD = object()
"""A value that does not fit."""

_DIGITS = set("0123456789")
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def read(kind: str, token: str) -> Any:
    """Return the value of a JSON token in a column of this type, None for null, or BAD.

    Times are microseconds since 1970, and numbers are fractions.
    """
    if token == "null":
        return None
    name, _, rest = kind.partition("(")
    is_text = token.startswith('"')
    is_number = token[0] in "-0123456789"
    if name in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
        bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}[name]
        if not is_number or not set(token.lstrip("-")) <= _DIGITS:
            return BAD
        return int(token) if -(1 << bits - 1) <= int(token) < 1 << bits - 1 else BAD
    if name in ("FLOAT", "DOUBLE"):
        return _floating(token, single=name == "FLOAT") if is_number else BAD
    if name == "DECIMAL":
        precision, scale = map(int, rest[:-1].split(","))
        number = _number(json.loads(token) if is_text else token if is_number else "")
        if number is BAD or (number * 10**scale).denominator != 1:
            return BAD
        return number if abs(number * 10**scale) < 10**precision else BAD
    if name == "BOOLEAN":
        return {"true": True, "false": False}.get(token, BAD)
    if not is_text:
        return BAD
    text = json.loads(token)
    if name == "STRING":
        return BAD if any(0xD800 <= ord(sign) < 0xE000 for sign in text) else text
    return {"TIMESTAMP": _time, "TIMESTAMP_NTZ": _local, "DATE": _day, "BINARY": _bytes}[name](text)


def _floating(token: str, *, single: bool) -> Any:
    exact = _number(token)
    try:
        found = float(exact)
    except OverflowError:
        return BAD
    near = _single(exact, found) if single else found
    if near in (float("inf"), float("-inf")) or (near == 0 and exact != 0):
        return BAD
    is_whole = set(token.lstrip("-")) <= _DIGITS
    if is_whole and Fraction(near) != exact and (single or Fraction(repr(near)) != exact):
        return BAD
    return -near if near == 0 and token[0] == "-" and not is_whole else near


def _single(exact: Fraction, found: float) -> float:
    """Return the number of 32 bits that is nearest to the exact one."""
    with np.errstate(over="ignore"):
        first = np.float32(found)
    if not np.isfinite(first):
        return float(first)
    around = [
        first,
        np.nextafter(first, np.float32("inf")),
        np.nextafter(first, -np.float32("inf")),
    ]
    there = [float(each) for each in around if np.isfinite(each)]
    return min(there, key=lambda each: abs(Fraction(each) - exact))


def _number(text: str) -> Any:
    body = text[1:] if text[:1] in ("-", "+") else text
    mantissa, *exponent = body.replace("E", "e").split("e")
    whole, *part = mantissa.split(".")
    power = exponent[0] if exponent else "0"
    digits = whole + (part[0] if part else "")
    is_plain = len(exponent) < 2 and len(part) < 2 and digits and set(digits) <= _DIGITS
    power_digits = power[1:] if power[:1] in ("-", "+") else power
    if not is_plain or not power_digits or not set(power_digits) <= _DIGITS:
        return BAD
    if not int(digits):
        return Fraction(0)
    found = Fraction(int(digits)) * Fraction(10) ** (int(power) - len(part[0] if part else ""))
    return -found if text[0] == "-" else found


def _day(text: str) -> Any:
    return _days(text)


def _days(text: str) -> Any:
    """Return the days since 1970."""
    parts = text.split("-")
    if [len(part) for part in parts] != [4, 2, 2] or not set("".join(parts)) <= _DIGITS:
        return BAD
    year, month, day = map(int, parts)
    if not (year and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]):
        return BAD
    leaps = sum((year - 1) // n * sign for n, sign in ((4, 1), (100, -1), (400, 1)))
    months = sum(calendar.monthrange(year, each)[1] for each in range(1, month))
    return 365 * (year - 1) + leaps + months + day - 1 - 719162


def _local(text: str) -> Any:
    return _time(text, zone=False)


def _time(text: str, *, zone: bool = True) -> Any:
    """Return the microseconds since 1970."""
    days, rest = _days(text[:10]), text[10:]
    if days is BAD or (rest and rest[0] not in "T "):
        return BAD
    clock, away = rest[1:], 0
    if rest:
        clock, away = _zone(clock)
        if away is BAD or (away is not None and not zone):
            return BAD
    micros = _clock(clock) if rest else 0
    if micros is BAD:
        return BAD
    found = days * 86_400_000_000 + micros - (away or 0) * 60_000_000
    first, end = _days("0001-01-01"), _days("9999-12-31") + 1
    return found if first * 86_400_000_000 <= found < end * 86_400_000_000 else BAD


def _zone(clock: str) -> tuple[str, Any]:
    """Return the time of day without its zone, and the zone in minutes, None if it has none."""
    for name in ("UTC", "Z"):
        if clock.endswith(name):
            return clock.removesuffix(name).removesuffix(" "), 0
    at = max(clock.find("+"), clock.find("-"))
    if at < 0:
        return clock, None
    zone, before = clock[at + 1 :], clock[:at].removesuffix(" ")
    digits = zone.replace(":", "", 1) if zone[2:3] == ":" and len(zone) == 5 else zone
    if len(digits) not in (2, 4) or not set(digits) <= _DIGITS:
        return before, BAD
    minutes = int(digits[:2]) * 60 + int(digits[2:] or 0)
    if int(digits[2:] or 0) > 59 or minutes > 18 * 60:
        return before, BAD
    return before, -minutes if clock[at] == "-" else minutes


def _clock(clock: str) -> Any:
    whole, *part = clock.split(".")
    pieces = whole.split(":")
    if len(pieces) not in (2, 3) or any(
        len(each) != 2 or not set(each) <= _DIGITS for each in pieces
    ):
        return BAD
    hour, minute, second = [*map(int, pieces), 0][:3]
    if hour > 23 or minute > 59 or second > 59 or len(part) > 1 or (part and len(pieces) < 3):
        return BAD
    if part and (not part[0] or not set(part[0]) <= _DIGITS):
        return BAD
    micros = Fraction(int(part[0]) * 10**6, 10 ** len(part[0])) if part else Fraction(0)
    if micros.denominator != 1:
        return BAD
    return ((hour * 60 + minute) * 60 + second) * 1_000_000 + int(micros)


def _bytes(text: str) -> Any:
    body = text.rstrip("=")
    if len(text) % 4 or len(text) - len(body) > 2 or not set(body) <= set(_BASE64):
        return BAD
    bits = "".join(format(_BASE64.index(sign), "06b") for sign in body)
    left = len(bits) % 8
    if left > 4 or "1" in bits[len(bits) - left :]:
        return BAD
    return bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - left, 8))


# Values


def tokens(kind: str, count: int, seed: int) -> list[str]:
    """Return JSON tokens for a column: good values, values at its limits, and near misses."""
    chance = random.Random(f"{kind} {seed}")
    found = [*ODD]
    while len(found) < count:
        makers = (
            [_any_number, _any_text] if chance.random() < 0.15 else [_MAKERS[kind.split("(")[0]]]
        )
        found.append(chance.choice(makers)(chance))
    return found[:count]


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _whole(chance: random.Random) -> str:
    limit = 1 << chance.choice((7, 15, 31, 63))
    near = chance.choice((0, limit, -limit)) + chance.randint(-2, 2)
    number = chance.choice((near, near, chance.randint(-limit, limit), chance.randint(0, 9)))
    return chance.choice((str(number),) * 6 + (f"{number}.0", f"{number}e0", f'"{number}"'))


def _any_number(chance: random.Random) -> str:
    digits = "".join(
        chance.choice("0123456789") for _ in range(chance.choice((1, 3, 9, 16, 19, 40)))
    )
    whole = digits.lstrip("0") or "0"
    part = "".join(chance.choice("0059") for _ in range(chance.choice((0, 0, 1, 2, 3, 18, 19))))
    power = chance.choice(("",) * 6 + ("e2", "E-2", "e+1", "e38", "e308", "e-308", "e400", "e-400"))
    return f"{chance.choice(('', '', '-'))}{whole}{'.' + part if part else ''}{power}"


def _floating_token(chance: random.Random) -> str:
    sizes = (1, 1e-300, 1e300, 3.4e38, 1e-45, 2.0**53, 2.0**24, 1e21)
    number = chance.choice(sizes) * chance.uniform(-2, 2)
    exact = int(chance.choice(sizes[-3:])) + chance.randint(-3, 3)
    return chance.choice((repr(number).replace("inf", "1e999"), str(exact), _any_number(chance)))


def _decimal(chance: random.Random) -> str:
    whole = "".join(chance.choice("0129") for _ in range(chance.choice((1, 2, 15, 16, 17, 20, 21))))
    part = "".join(chance.choice("0105") for _ in range(chance.choice((0, 1, 2, 3, 17, 18, 19))))
    number = f"{chance.choice(('', '-'))}{whole.lstrip('0') or '0'}{'.' + part if part else ''}"
    signed = chance.choice(("+", "-", "", " ", "$")) + whole + (f".{part}" if part else "")
    signed += chance.choice(("", "", "", " ", "e2", "E-1", "€", "_0", ".", "d"))
    return chance.choice((number, _text(number), _text(signed), _any_number(chance)))


def _boolean(chance: random.Random) -> str:
    return chance.choice(("true", "false", '"true"', "1", "0", '"yes"'))


def _any_text(chance: random.Random) -> str:
    signs = ("a", "é", "😀", "\x00", '"', "\\", "\n", "\ud800", "\udc00", "]", "}", " ", "1", ":")
    made = "".join(chance.choice(signs) for _ in range(chance.randint(0, 5)))
    return json.dumps(made)


def _date(chance: random.Random) -> str:
    year = chance.choice((1, 1582, 1899, 1900, 1970, 2024, 2026, 9999, chance.randint(0, 9999)))
    day = f"{year:04}-{chance.randint(1, 12):02}-{chance.randint(1, 31):02}"
    before, after = chance.choice((("", ""),) * 8 + (("+", ""), (" ", ""), ("1", ""), ("", " x")))
    other = f"{year}-{chance.randint(1, 12)}-{chance.randint(1, 31)}"
    wrong = (other, day[:7], day[:4], day.replace("-", "/"), f"{day}T00:00:00Z", "today", "")
    return _text(before + (chance.choice(wrong) if chance.random() < 0.1 else day) + after)


def _moment(chance: random.Random) -> str:
    day = json.loads(_date(chance))
    clock = f"{chance.randint(0, 24):02}:{chance.randint(0, 60):02}:{chance.randint(0, 60):02}"
    part = chance.choice(("", "", ".5", ".123456", ".1234567", ".123456000", ".", ".1234560001"))
    zones = ("", "Z", "+02:00", "-0530", "+01", "+18:00", "-18:01", "+14:30", " UTC", " +01:00")
    odd = ("+1", "+25:00", " Europe/Berlin", "[UTC]", "z", "GMT", "+02:60", "CET")
    zone = chance.choice(zones * 3 + odd)
    clock = chance.choice((clock,) * 9 + (clock[:5], clock[:2], clock + ":00", ""))
    whole = f"{day}{chance.choice('TTTT t')}{clock}{part}{zone}"
    # Europe's clock goes back in this night, but not the clock of UTC.
    night = "2026-10-25T02:30:00" + chance.choice(("", "+01:00", "+02:00", " Europe/Berlin"))
    return _text(
        chance.choice((whole,) * 9 + (day, clock, f"T{clock}", f" {whole}", f"{whole} x", night))
    )


def _base64(chance: random.Random) -> str:
    made = "".join(chance.choice("AQgw/9+-_ =") for _ in range(chance.randint(0, 6)))
    good = "".join(chance.choice(_BASE64) for _ in range(4 * chance.randint(0, 3)))
    return _text(
        chance.choice((made, good, good + "AA==", good + "AP8=", good + "AP9=", good + "\n"))
    )


ODD = [
    *("null", '""', "[]", "{}", "true", "0", "-0", "-0.0", "1e400", "-1e400", "1e-400", "0e999"),
    *("9007199254740993E-2", "9999999999999999e-2", "8487911529598463e-1", "7649865866337549E-2"),
    *("0e-99999999999999999999", '"0E99999999999999999999"', "1E2", "1.0", "5e-324", "2e-324"),
    *(
        "1.00000017881393432617187499",
        "1.000000178813934326171875",
        "-1.00000017881393432617187501",
    ),
    *("1.7976931348623159e308", '""', '"1."', '".5"', '"-"', '"\\ufeff"', '"\\ude00\\ud83d"'),
    *('"2026-11-23T23:59:60Z"', '"2026-11-23T24:00:00"', '"2026-W48-1"', '"20261123"'),
    *('"2026-11-23T04:05:06,789Z"', '"2026-11-23T04:05:06−05:00"', '"2026-11-23T"'),
    *('"2026-11-23\\n"', '"1900-02-29"', '"2000-02-29"', '"A==="', '"AAAA===="', '"AP9="'),
    *("9007199254740993", "9007199254740.993", "123456789012345680000", "16777217", "1.5", "1.005"),
    *(
        '"12:34:56"',
        '"2026-11-23 x"',
        '"0x10"',
        '"NaN"',
        '"Infinity"',
        '" 1"',
        '"1 "',
        '"٣"',
        '"1_0"',
    ),
    *('"2026-11-23T04:05:06.789Z"', '"0000-01-01"', '"10000-01-01"', '"2026-02-29"', '"now"'),
    *('"9999-12-31T23:59:59-05:00"', '"0001-01-01T00:00:00+00:01"', '"epoch"', '"AP8="', '"AP8"'),
]
_MAKERS: dict[str, Callable[[random.Random], str]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), _whole),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _floating_token),
    "DECIMAL": _decimal,
    "BOOLEAN": _boolean,
    "STRING": _any_text,
    "TIMESTAMP": _moment,
    "TIMESTAMP_NTZ": _moment,
    "DATE": _date,
    "BINARY": _base64,
}
