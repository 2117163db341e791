"""Parses submitted forms."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request

from kstorm.errors import ConfigError

MOST_BYTES: Final = 4096
_MOST_FIELDS: Final = 32


async def fields_of(request: Request, most: int = MOST_BYTES) -> Mapping[str, str]:
    """Return each field's first value. Raises `ConfigError` if the body exceeds `most` bytes or is
    not a form."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise ConfigError(f"the form is longer than {most:,} bytes: send less")
    try:
        found = parse_qs(
            body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"
        )
    except ValueError as error:
        raise ConfigError("the request body is not a form") from error
    return {name: values[0] for name, values in found.items()}
