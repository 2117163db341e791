"""`python -m tools.docs [VERB]`: the site of the documentation, which `./run docs` starts.

`build` makes the site and fails for a dead link, a dead anchor or an outdated page. `serve` shows it
while you write. `write` generates the reference pages from the code. `deploy VERSION` commits the
site of a version to the branch gh-pages, without a push. The alias `latest` and the start page lead
to it; with `--beside` they do not, unless there is no other version yet.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from kstorm.dev.command_exit import run_command
from kstorm.errors import LocalError
from tools.docs.reference import ROOT, outdated, write

CONFIG: Final = ROOT / "mkdocs.yml"
SITE: Final = ROOT / ".kstorm" / "site"


def main() -> int:
    """Run one verb and return the exit code."""
    parser = argparse.ArgumentParser(prog="./run docs")
    verbs = parser.add_subparsers(dest="verb")
    build = verbs.add_parser("build", help="make the site (default)")
    build.add_argument("folder", type=Path, nargs="?", default=SITE)
    serve = verbs.add_parser("serve", help="show the site, and build it again after each change")
    serve.add_argument("--address", default="127.0.0.1:8000", metavar="HOST:PORT")
    verbs.add_parser("write", help="generate the reference pages from the code")
    deploy = verbs.add_parser("deploy", help="commit the site to the branch gh-pages")
    deploy.add_argument("version", help="such as 0.1; the alias latest then leads to it")
    deploy.add_argument("--beside", action="store_true", help="leave the alias where it is")
    options = parser.parse_args()
    if options.verb == "write":
        for file in write():
            print(file.relative_to(ROOT))
        return 0
    check()
    match options.verb:
        case "serve":
            return _run(
                "mkdocs.__main__",
                "cli",
                "serve",
                "--config-file",
                CONFIG,
                "--dev-addr",
                options.address,
            )
        case "deploy":
            return _deploy(options.version, options.beside)
    folder = options.folder if options.verb else SITE
    code = _run(
        "mkdocs.__main__", "cli", "build", "--config-file", CONFIG, "--strict", "--site-dir", folder
    )
    if not code:
        print(f"the site is {folder}/index.html")
    return code


def check() -> None:
    """Raise `LocalError` if a generated page is not that of the code."""
    wrong = outdated()
    if wrong:
        names = ", ".join(str(file.relative_to(ROOT)) for file in wrong)
        raise LocalError(f"{names} differ from the code: run `./run docs write`")


def _deploy(version: str, beside: bool) -> int:
    mike = ("mike.driver", "main")
    names = (version,) if beside else ("--update-aliases", version, "latest")
    code = _run(*mike, "deploy", "--config-file", CONFIG, *names)
    if code or (beside and _has_start_page()):
        return code
    return _run(*mike, "set-default", "--config-file", CONFIG, version if beside else "latest")


def _has_start_page() -> bool:
    command = ["git", "cat-file", "-e", "gh-pages:index.html"]
    return not subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode


def _run(module: str, function: str, *words: str | Path) -> int:
    # `python -m` does not start mike.
    start = f"import {module} as program; raise SystemExit(program.{function}())"
    command = [sys.executable, "-c", start, *words]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=quiet, check=False).returncode


if __name__ == "__main__":
    sys.exit(run_command("./run docs", main))
