"""A stub of a schema registry's HTTP API. It keeps schemas by id, and a test can change its
answers.

The package registries that `./run` uses have no real schema registry. The stub has the routes that
confluent-kafka's serdes call, with the documented answers and error codes. It checks no
compatibility. Protobuf is registered as serialized descriptors. With `?format=serialized` the stub
returns them. Otherwise it returns a text, like a real registry.
"""

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.http_stub import HttpStub

TYPE = "application/vnd.schemaregistry.v1+json"


class RegistryStub(HttpStub):
    """Listens on a free port while its context is open.

    `answers` is a status that replaces every answer.
    """

    content_type = TYPE

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.answers: int | None = None
        self.serializes = True
        """True if the registry supports `format=serialized`."""

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]
        if self.answers is not None:
            return self.answers, b"<html>not a registry's answer</html>"
        status, found = self._found(method, parts, body)
        serialized = self.serializes and parse_qs(urlsplit(path).query).get("format") == [
            "serialized"
        ]
        if method == "GET" and found.get("schemaType") == "PROTOBUF" and not serialized:
            found = {**found, "schema": 'syntax = "proto3";'}
        return status, found

    def _found(self, method: str, parts: list[str], body: dict[str, Any]) -> tuple[int, Any]:
        if method == "GET" and parts[:2] == ["schemas", "ids"]:
            found = self.schemas.get(int(parts[2]))
            return (
                (200, found)
                if found
                else (404, {"error_code": 40403, "message": f"Schema {parts[2]} not found"})
            )
        if method == "GET" and parts[0] == "subjects" and parts[2:3] == ["versions"]:
            return self._version(parts[1], parts[3])
        if method == "POST" and parts[0] == "subjects":
            return self._register(parts[1], body, create=parts[2:] == ["versions"])
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _version(self, subject: str, version: str) -> tuple[int, Any]:
        ids = self.subjects.get(subject, [])
        number = len(ids) if version == "latest" else int(version)
        if not 0 < number <= len(ids):
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        id = ids[number - 1]
        return 200, {"subject": subject, "version": number, "id": id, **self.schemas[id]}

    def _register(self, subject: str, body: dict[str, Any], create: bool) -> tuple[int, Any]:
        schema = {key: body[key] for key in ("schema", "schemaType", "references") if body.get(key)}
        id = next(
            (id for id, known in self.schemas.items() if known == schema), len(self.schemas) + 1
        )
        ids = self.subjects.get(subject, [])
        if id not in ids:
            if not create:
                return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
            if "refused" in subject:
                return 409, {
                    "error_code": 409,
                    "message": "Schema being registered is incompatible",
                }
            self.schemas[id] = schema
            ids = self.subjects.setdefault(subject, ids)
            ids.append(id)
        return 200, {"subject": subject, "version": ids.index(id) + 1, "id": id, **schema}
