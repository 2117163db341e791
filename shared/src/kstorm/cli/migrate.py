"""`kstorm migrate`: come over from Storm.

kstorm migrate flux topology.yaml
kstorm migrate flux topology.yaml --output kstorm.yaml
kstorm migrate offsets --group storm-group --topology hello:topology
kstorm migrate compare counts counts-canary
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from kstorm.cli.json_output import Json, print_json
from kstorm.cli.migrate_compare import compare
from kstorm.cli.migrate_offsets import offsets
from kstorm.errors import ConfigError
from kstorm.flux.files import read_text
from kstorm.flux.migration import migrate

app = typer.Typer(
    help="Come over from Storm: translate its files, take over its offsets, compare its output.",
    no_args_is_help=True,
)
app.command()(offsets)
app.command()(compare)


@app.command()
def flux(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of Storm's Flux.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write the translated file here."),
    ] = None,
    json: Json = False,
) -> None:
    """Translate a topology's YAML file, and print the difference.

    Lines that a person must complete end in a comment with TODO. They are listed on standard error.
    """
    text = read_text(file, "the Flux file")
    found = migrate(text, str(file))
    if output is not None:
        if output.exists():
            raise ConfigError(f"{output} exists: choose another file, or remove it")
        output.write_text(found.text, encoding="utf-8")
    if json:
        print_json({"text": found.text, "remarks": list(found.remarks)})
        return
    print(found.difference(text, str(file)), end="")
    for remark in found.remarks:
        print(f"kstorm: {output or file}:{remark}", file=sys.stderr)
