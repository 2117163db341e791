"""`kstorm prepare`: check and create what a topology's pods need before they start.

The chart's Job runs it.
"""

import time
from pathlib import Path
from typing import Annotated, Final

import typer

from kstorm.cli.json_output import Json, print_json, prose_on_stderr
from kstorm.errors import BrokerError, ConfigError, InUseError
from kstorm.operations.control.deployment_shape import DeploymentShape, parse_shape, shape_of
from kstorm.operations.status.endpoint_checks import check_endpoints, endpoint_faults
from kstorm.references import is_file
from kstorm.runtime.base.settings import Settings, from_environment
from kstorm.runtime.kafka.own_topic_creation import create_own_topics
from kstorm.runtime.kafka.release_check import check_single_release
from kstorm.runtime.kafka.topics import ensure_topics
from kstorm.runtime.kafka.transactional_producer import TransactionalIdError, check_transactions
from kstorm.topology import Topology

_PAUSE_SECS: Final = 1.0


def prepare(
    values: Annotated[
        str,
        typer.Option(
            "--values", metavar="JSON", help="The chart's values, to compare with the code."
        ),
    ] = "",
    check_only: Annotated[
        bool, typer.Option("--check-only", help="Only compare. Do not connect to Kafka.")
    ] = False,
    ends: Annotated[
        int,
        typer.Option(
            "--ends", metavar="N", help="Also create source and sink topics, with N partitions."
        ),
    ] = 0,
    allow_missing_ends: Annotated[
        bool,
        typer.Option(
            "--allow-missing-ends", help="Print the unusable source and sink topics, and continue."
        ),
    ] = False,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", help="Longest wait for Kafka.")
    ] = 0.0,
    json: Json = False,
) -> None:
    """Compare a chart's values with the code in KSTORM_TOPOLOGY, and create the topology's topics.

    Refuses values that differ from the code, and topics with another partition count, and prints
    both numbers. Refuses source and sink topics that are missing or not accessible. Refuses a
    topology that another release (KSTORM_RELEASE) is running.
    """
    settings = from_environment()
    topology = settings.load_topology()
    with prose_on_stderr(json):
        _prepare(settings, topology, values, check_only, ends, allow_missing_ends, wait)
    if json:
        print_json({"topology": topology.name, "prepared": not check_only})


def _prepare(
    settings: Settings,
    topology: Topology,
    values: str,
    check_only: bool,
    ends: int,
    allow_missing_ends: bool,
    wait: float,
) -> None:
    if values:
        compare(settings.topology, parse_shape(values), shape_of(topology))
    if check_only:
        print(f"the values match {settings.topology}")
        return
    # A user who creates topics with --ends may create the others later.
    tolerant = allow_missing_ends or bool(ends)
    _when_kafka_answers(topology, settings, wait, tolerant=tolerant)
    for topic in create_own_topics(topology, settings, ends) if ends else ():
        print(f"created {topic} with {ends} partitions")
    if tolerant:
        _tell_ends(topology, settings)


def compare(reference: str, said: DeploymentShape, code: DeploymentShape) -> None:
    """Raise `ConfigError` if there are differences, with both sides of each.

    The error names a file without its folder.
    """
    if found := list(said.differences(code)):
        named = Path(reference).name if is_file(reference) else reference
        raise ConfigError(
            f"the chart's values differ from {reference}: {'; '.join(found)}. Write them again "
            f"with `kstorm values {named}`"
        )


def _when_kafka_answers(
    topology: Topology, settings: Settings, wait: float, *, tolerant: bool
) -> None:
    deadline = time.monotonic() + wait
    while True:
        try:
            if not tolerant:
                check_endpoints(topology, settings)
            _check_alone(topology, settings)
            created = ensure_topics(topology, settings).created
            _check_transactions(topology, settings)
        # A release that was just uninstalled ends soon.
        except (BrokerError, InUseError) as error:
            if time.monotonic() > deadline:
                raise
            print(f"still waiting: {error}", flush=True)
            time.sleep(_PAUSE_SECS)
        else:
            print(f"{topology.name}: created {', '.join(sorted(created)) or 'no topic, all exist'}")
            return


def _check_alone(topology: Topology, settings: Settings) -> None:
    try:
        check_single_release(topology, settings)
    except BrokerError as error:
        print(f"not checked whether another release is running: {error}", flush=True)


def _tell_ends(topology: Topology, settings: Settings) -> None:
    try:
        for line in endpoint_faults(topology, settings):
            print(f"warning: {line}", flush=True)
    except BrokerError as error:
        print(f"not all source and sink topics were checked: {error}", flush=True)


def _check_transactions(topology: Topology, settings: Settings) -> None:
    """Check that Kafka supports transactions, unless this user may not use the services'
    transactional IDs."""
    try:
        check_transactions(topology, settings)
    except TransactionalIdError as error:
        print(f"not checked whether Kafka allows transactions: {error}", flush=True)
