"""`python -m tests.e2e`, which `./run e2e` starts."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from kstorm.dev.command_exit import run_command
from kstorm.errors import ConfigError
from tests.e2e.disturbances import Disturbance, disturbances
from tests.e2e.images import make_images
from tests.e2e.kube import Kube, until
from tests.e2e.orders import ORDERS
from tests.e2e.outcome import E2eOutcome, Episode
from tests.e2e.page import check_page, write_page
from tests.e2e.release import Release
from tests.e2e.wordcount import WORDCOUNT

_TRIALS = {trial.name: trial for trial in (WORDCOUNT, ORDERS)}
_SETTLE_SECS = 10.0
"""Pause after a disturbance, to separate its replays from those of the next one."""


def main() -> int:
    """Return 0 for success, 1 for a broken promise, 2 if it could not run."""
    parser = argparse.ArgumentParser(
        prog="./run e2e",
        description="Install a topology on the cluster of KUBECONFIG, disturb it, and audit the sink.",
    )
    parser.add_argument(
        "--topology", choices=_TRIALS, default=WORDCOUNT.name, help="which one (default wordcount)"
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help="scale a bolt, delete an acker; no pipeline, no upgrade",
    )
    parser.add_argument(
        "--rate", type=float, default=40.0, metavar="N", help="messages a second (default 40)"
    )
    parser.add_argument(
        "--namespace",
        default="kstorm-e2e",
        metavar="NAME",
        help="is made, and removed (default kstorm-e2e)",
    )
    parser.add_argument(
        "--no-build", action="store_true", help="the cluster has the images already"
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the release when something goes wrong"
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="PAGE",
        help="write the table into docs/development/disturbances.md or such a page",
    )
    arguments = parser.parse_args()
    return run_command("kstorm e2e", lambda: _run(arguments, Console()))


def _run(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.report is not None:
        check_page(arguments.report, arguments.topology)
    kube = Kube(arguments.namespace)
    version = kube.kubectl("version")
    if kube.kubectl("get", "namespace", arguments.namespace, "--ignore-not-found"):
        raise ConfigError(
            f"the namespace {arguments.namespace!r} is there already: remove it, or name another"
        )
    tags = make_images(console, build=not arguments.no_build, short=arguments.short)
    whole = False
    try:
        with tempfile.TemporaryDirectory(prefix="kstorm-e2e-") as workdir:
            release = Release(kube, _TRIALS[arguments.topology], tags[0], Path(workdir))
            outcome = _story(release, tags[-1], arguments, console, version)
        whole = True
    finally:
        if whole or not arguments.keep:
            console.print("removing the namespace")
            kube.kubectl(
                "delete",
                "namespace",
                arguments.namespace,
                "--ignore-not-found",
                "--wait",
                timeout=300,
            )
    outcome.show(console)
    if arguments.report is not None:
        write_page(outcome, arguments.report)
    return 1 if list(outcome.faults()) else 0


def _story(
    release: Release, next_tag: str, arguments: argparse.Namespace, console: Console, version: str
) -> E2eOutcome:
    with console.status("helm install"):
        began = time.monotonic()
        release.install()
    console.print(f"installed and ready after {time.monotonic() - began:.0f} s")
    release.feed(arguments.rate)
    until(lambda: release.samples()[-1].sink > 0, 120, "the first record in the sink")
    episodes = [
        _episode(release, one, console) for one in disturbances(release, arguments.short, next_tag)
    ]
    samples = release.samples()
    posted = release.stop_feeding()
    with console.status("the audit"):
        findings = release.audit()
        counted = release.audit_tables(findings.truth)
        audited = release.account()
    with console.status("helm test"):
        release.test()
    console.print("helm test passed")
    if not arguments.short:
        with console.status("kstorm kill"):
            release.kill()
        console.print("kstorm kill left no pod of the topology")
    left = release.uninstall()
    told = _circumstances(version, arguments.rate)
    return E2eOutcome(
        release.trial, episodes, samples, findings, counted, audited, posted, left, told
    )


def _episode(release: Release, one: Disturbance, console: Console) -> Episode:
    one.wait()
    begin = time.time()
    with console.status(one.name):
        one.do()
        release.await_ready()
        ready = time.time()
        before = release.samples()[-1].sink
        until(lambda: release.samples()[-1].sink > before, 180, f"progress after: {one.name}")
        time.sleep(_SETTLE_SECS)
    console.print(f"{one.name}: ready again after {ready - begin:.1f} s")
    return Episode(one.name, begin, ready, time.time())


def _circumstances(version: str, rate: float) -> str:
    server = next(
        (line.split()[-1] for line in version.splitlines() if line.startswith("Server")),
        "of no version",
    )
    return f"Kubernetes {server}, {rate:g} messages a second"


if __name__ == "__main__":
    sys.exit(main())
