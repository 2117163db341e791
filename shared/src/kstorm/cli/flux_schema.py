"""`kstorm flux-schema`: print the schema of topology YAML files, for editors.

kstorm flux-schema > topology.schema.json
"""

from kstorm.flux.schema import schema_text


def flux_schema() -> None:
    """Print the JSON Schema of topology YAML files. Editors use it to validate them."""
    print(schema_text(), end="")
