"""Options that select a topology on Kubernetes."""

from typing import Annotated, Final

import typer

PLACE: Final = "Where the topology runs"
"""Heading of these options in the help."""

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The topology's name.", show_default=False)
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAMESPACE",
        help="Kubernetes namespace. Default: the context's.",
        rich_help_panel=PLACE,
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        metavar="CONTEXT",
        help="Context of the kubeconfig. Default: its current one.",
        rich_help_panel=PLACE,
    ),
]
