"""`kstorm flux-schema`: print the schema of topology YAML files, for editors.

kstorm flux-schema > topology.schema.json
"""

from kstorm.cli.json_output import Json
from kstorm.flux.schema import schema_text


def flux_schema(json: Json = False) -> None:
    """Print the JSON Schema of topology YAML files. Editors use it to validate them."""
    # The schema is JSON in any case.
    del json
    print(schema_text(), end="")
