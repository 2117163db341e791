"""Derives columns from a JSON Schema. Types without an SQL equivalent become VARIANT (any JSON)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from kstorm_pipeline.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORMATS: dict[str | None, DataType] = {"date-time": TimestampType(), "date": DateType()}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
"""Kafka Connect's name for a number that must not be rounded. The scale is its parameter."""


def columns_of_schema(text: str, references: Mapping[str, str]) -> StructType:
    """Return the properties of an object's schema as columns.

    Raises PipelineError if the schema is not an object's. `references` are other schemas, by their
    names in `$ref`.
    """
    try:
        documents = {name: json.loads(each) for name, each in {**references, "": text}.items()}
    except ValueError:
        raise PipelineError("the reader's JSON Schema is not JSON") from None
    kind, _ = _Types(documents).of(documents[""], "", ())
    if not isinstance(kind, StructType):
        raise PipelineError(
            "the reader's JSON Schema has no properties that can be columns: give the records columns="
        )
    return kind


class _Types:
    """Column types for parts of schemas."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents

    def of(self, node: Any, document: str, above: tuple[str, ...]) -> tuple[DataType, bool]:
        """Return the type of a part of a document, and True if it may be null.

        `above` are the references that lead to this part.
        """
        if not isinstance(node, dict):
            return VariantType(), True
        if "$ref" in node:
            return self._referred(node["$ref"], document, above)
        for name in ("oneOf", "anyOf"):
            if name in node:
                others = [each for each in node[name] if each != {"type": "null"}]
                if len(others) != 1:
                    return VariantType(), True
                kind, null = self.of(others[0], document, above)
                return kind, null or len(others) < len(node[name])
        types = node.get("type", _type_of_values(node))
        if not isinstance(types, list):
            return self._plain(types, node, document, above), types is None
        others = [each for each in types if each != "null"]
        kind = self._plain(others[0], node, document, above) if len(others) == 1 else VariantType()
        return kind, "null" in types

    def _plain(
        self, name: Any, node: dict[str, Any], document: str, above: tuple[str, ...]
    ) -> DataType:
        match name:
            case "string" if node.get("contentEncoding") == "base64":
                return BinaryType()
            case "string":
                return _FORMATS.get(node.get("format"), StringType())
            case "integer":
                return LongType()
            case "number":
                return _number(node)
            case "boolean":
                return BooleanType()
            case "array" if isinstance(node.get("items"), dict):
                kind, null = self.of(node["items"], document, above)
                return ArrayType(kind, null)
            case "object":
                return self._object(node, document, above)
        return VariantType()

    def _object(self, node: dict[str, Any], document: str, above: tuple[str, ...]) -> DataType:
        more = node.get("additionalProperties")
        if node.get("properties"):
            fields = []
            for name, each in node["properties"].items():
                kind, null = self.of(each, document, above)
                fields.append(StructField(name, kind, null or name not in node.get("required", ())))
            return StructType(fields)
        if isinstance(more, dict):
            kind, null = self.of(more, document, above)
            return MapType(StringType(), kind, null)
        return VariantType()

    def _referred(
        self, reference: str, document: str, above: tuple[str, ...]
    ) -> tuple[DataType, bool]:
        name, _, path = reference.partition("#")
        document = name or document
        place = f"{document}#{path}"
        node = self._documents.get(document)
        for part in filter(None, path.split("/")):
            key = part.replace("~1", "/").replace("~0", "~")
            node = node.get(key) if isinstance(node, dict) else None
        if node is None or place in above:  # unknown, or a recursive type
            return VariantType(), True
        return self.of(node, document, (*above, place))


def _number(node: dict[str, Any]) -> DataType:
    if node.get("title") == _DECIMAL:
        return DecimalType(38, int(node.get("connect.parameters", {}).get("scale", 0)))
    return DoubleType()


def _type_of_values(node: dict[str, Any]) -> str | None:
    """Return the type of a schema that only lists values."""
    values = node.get("enum", [node["const"]] if "const" in node else [])
    return "string" if values and all(isinstance(each, str) for each in values) else None
