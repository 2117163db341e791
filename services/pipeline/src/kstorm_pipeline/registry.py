"""A schema registry client: finds the schema of an id, and the latest schema of a subject.

It uses only the standard library, because it needs just two requests and caches the answers.
Executors don't need it. confluent-kafka's client would add librdkafka and ten more packages to the
image.

An id always means the same schema, and so does a version of a subject, so both are requested once.
The rule: an id is unknown only if the registry itself reports that. Any other failure raises
`PipelineError`.
"""

from __future__ import annotations

import base64
import json
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import HTTPSHandler, OpenerDirector, Request, build_opener

from kstorm.formats import FORMATS, UNNAMED
from kstorm_pipeline.errors import PipelineError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

OPTIONS = (
    "basic.auth.user.info",
    "bearer.auth.token",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
"""The names of login and certificate options, as in confluent-kafka's client."""
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
_TIMEOUT_SECONDS = 10.0
_UNKNOWN = (40401, 40402, 40403)
"""The registry's error codes for an unknown subject, version and schema."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema from the registry."""

    id: int
    kind: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    """The registered text. For Protobuf, the serialized descriptor of the file in base64."""
    references: Mapping[str, Schema] = field(default_factory=dict)
    """All referenced schemas, also indirect ones, by name. Each comes after its own references."""


class Registry:
    """A registry with one or more addresses, `http://host:port[,http://host:port…]`.

    The first address that answers is used.
    """

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        unknown = sorted(set(options) - set(OPTIONS))
        if unknown:
            raise SettingsError(
                f"the schema registry has no option {unknown[0]!r}: give one of {', '.join(OPTIONS)}"
            )
        self._addresses = [address.strip().rstrip("/") for address in url.split(",")]
        self.shown = ",".join(map(without_login, self._addresses))
        """The addresses for messages, without user and password."""
        self._options = options
        self._opener = _opener(options)
        self._answers: dict[str, Any] = {}

    def schema(self, id: int) -> Schema | None:
        """Return the schema with this id, or None if the registry does not know it."""
        found = self._once(f"/schemas/ids/{id}", f"schema id {id}")
        return None if found is None else self._schema(id, found)

    def latest(self, subject: str) -> Schema | None:
        """Return the latest schema of a subject, or None if the subject does not exist."""
        found = self._ask(
            f"/subjects/{quote(subject, safe='')}/versions/latest", f"the subject {subject!r}"
        )
        return None if found is None else self._schema(int(found["id"]), found)

    def _schema(self, id: int, found: Any) -> Schema:
        return self._made(id, found, self._references(id, found, ()))

    def _made(self, id: int, found: Any, references: Mapping[str, Schema]) -> Schema:
        kind, text = found.get("schemaType") or UNNAMED.kind, found["schema"]
        form = FORMATS[kind].schema_form if kind in FORMATS else None
        if form is not None:
            text = (self._once(f"/schemas/ids/{id}?format={form}", f"schema id {id}") or found)[
                "schema"
            ]
        return Schema(id, kind, text, references)

    def _references(self, id: int, found: Any, above: tuple[str, ...]) -> dict[str, Schema]:
        collected: dict[str, Schema] = {}
        for each in found.get("references") or ():
            name, subject, version = each["name"], each["subject"], each["version"]
            if name in above:
                continue
            what = f"version {version} of the subject {subject!r}, to which schema id {id} refers"
            answer = self._once(f"/subjects/{quote(subject, safe='')}/versions/{version}", what)
            if answer is None:
                raise PipelineError(
                    f"the schema registry at {self.shown} does not have {what}: register it again"
                )
            collected |= self._references(id, answer, (*above, name))
            collected[name] = self._made(int(answer["id"]), answer, {})
        return collected

    def _once(self, path: str, what: str) -> Any:
        """Return the cached answer to a request whose answer never changes."""
        if path not in self._answers:
            found = self._ask(path, what)
            if found is None:
                return None
            self._answers[path] = found
        return self._answers[path]

    def _ask(self, path: str, what: str) -> Any:
        """Return the answer as JSON, or None if the object does not exist in the registry.

        Raises PipelineError if the answer is missing or invalid.
        """
        reasons = []
        for address in self._addresses:
            try:
                return self._get(address, path)
            except _NoAnswerError as error:
                reasons.append(f"{without_login(address)}: {error}")
        raise PipelineError(
            f"the schema registry does not return {what} ({'; '.join(reasons)}). "
            "No record is lost or quarantined because of this: check that it is up, that "
            "--schema-registry is right and that --schema-registry-option has its login, "
            "then run again"
        )

    def _get(self, address: str, path: str) -> Any:
        parts = urlsplit(address)
        place = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        headers = {"Accept": _ACCEPT, **self._login(parts.username, parts.password)}
        request = Request(place + path, headers=headers)  # noqa: S310
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                return _object(answer.read(), f"{answer.status}")
        except HTTPError as error:
            found = _object(error.read(), f"{error.code} {error.reason}")
            if found.get("error_code") in _UNKNOWN:
                return None
            raise _NoAnswerError(f"{error.code} {found.get('message', error.reason)}") from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise _NoAnswerError(str(getattr(reason, "strerror", None) or reason)) from None

    def _login(self, user: str | None, password: str | None) -> dict[str, str]:
        """Return the header for the login from the options, or else from the address."""
        if token := self._options.get("bearer.auth.token"):
            return {"Authorization": f"Bearer {token}"}
        login = f"{unquote(user)}:{unquote(password or '')}" if user else ""
        login = self._options.get("basic.auth.user.info", login)
        return (
            {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"} if login else {}
        )


class _NoAnswerError(Exception):
    """The server did not answer, or not like a registry."""


def without_login(url: str) -> str:
    """Return an address without user and password."""
    # A password may contain an unescaped "/" or "@".
    scheme, separator, rest = url.strip().rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _object(data: bytes, status: str) -> Any:
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _NoAnswerError(f"{status}, and the response is not from a registry")
    return found


def _opener(options: Mapping[str, str]) -> OpenerDirector:
    try:
        context = ssl.create_default_context(cafile=options.get("ssl.ca.location"))
        if certificate := options.get("ssl.certificate.location"):
            context.load_cert_chain(
                certificate, options.get("ssl.key.location"), options.get("ssl.key.password")
            )
    except OSError as error:  # a file is missing or has an invalid format
        raise SettingsError(
            f"the schema registry's certificates cannot be used: {error.strerror or error}"
        ) from None
    return build_opener(HTTPSHandler(context=context))
