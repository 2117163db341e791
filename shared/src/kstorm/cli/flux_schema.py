"""`kstorm flux-schema`: what a topology's YAML file may say, for editors.

kstorm flux-schema > topology.schema.json
"""

from kstorm.flux.schema import schema_text


def flux_schema() -> None:
    """Prints the JSON Schema of a topology's YAML file, for an editor to check it by."""
    print(schema_text(), end="")
