"""Options that select a topology on Kubernetes."""

from typing import Annotated

import typer

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
    ),
]
Context = Annotated[
    str | None,
    typer.Option(metavar="CONTEXT", help="Context of the kubeconfig. Default: its current one."),
]
