"""Explains errors of the API server and of its connections in one line."""

import json
import re
from typing import Any, Final

_SILENT: Final = (404, 500, 502, 503, 504)
_BAD_REQUEST: Final = 400


def is_silence(error: Any) -> bool:
    """Return True if the error means that the pod does not respond.

    A pod that is being created has no address yet, which the API server reports as a bad request. A
    pod whose process hangs accepts the request, and the API server waits for it.
    """
    from kubernetes.client import ApiException
    from urllib3.exceptions import ReadTimeoutError

    if not isinstance(error, ApiException):
        return isinstance(getattr(error, "reason", None) or error, ReadTimeoutError)
    return error.status in _SILENT or (
        error.status == _BAD_REQUEST and "address not allowed" in str(error.body)
    )


def refusal_of(error: Any) -> str:
    """Explain the API server's error and its remedy."""
    try:
        message = str(json.loads(error.body)["message"])
    except (TypeError, ValueError, LookupError):
        message = str(error.reason)
    message = in_one_line(message)
    lacks = re.search(
        r'User "([^"]*)" cannot (\w+) resource "([^"]*)"(?: in API group "([^"]*)")?', message
    )
    if error.status == 403 and lacks:
        user, verb, resource, group = lacks.groups()
        where = re.search(r'in the namespace "([^"]*)"', message)
        of_group = f" of {group}" if group else ""
        in_namespace = f" in the namespace {where[1]}" if where else " in all namespaces"
        return (
            f"{user} may not {verb} {resource}{in_namespace}: a Role must allow the verb "
            f"{verb} on {resource}{of_group}"
        )
    if error.status == 401:
        return (
            f"Kubernetes does not accept this login ({message}): log in again, or choose "
            "another --context"
        )
    return f"Kubernetes refuses: {message}"


def in_one_line(found: object) -> str:
    return " ".join(str(found).split()) or type(found).__name__


def innermost(error: BaseException) -> str:
    """Return the innermost reason, because urllib3 wraps the actual error."""
    reason = getattr(error, "reason", None)
    return innermost(reason) if isinstance(reason, BaseException) else in_one_line(error)
