"""The command line of the pipeline: `python -m kstorm_pipeline COMMAND`.

The commands are run, rebuild, audit, maintain, describe, show and summary. Results go to stdout as
JSON, everything else to stderr. Exit codes: 0 if the command succeeded, 1 if it failed, 2 if a flag
or a setting is wrong. That includes a Kafka or a folder that cannot be used at the start. Spark on
Kubernetes also starts this module as `driver` and `executor`: see `container`.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kstorm.printable import guarded
from kstorm_pipeline import report
from kstorm_pipeline.audit.audit import audit
from kstorm_pipeline.audit.window import Times, parse_time
from kstorm_pipeline.broker_probe import ask_brokers
from kstorm_pipeline.container import ROLES, become
from kstorm_pipeline.errors import PipelineError, SettingsError
from kstorm_pipeline.failures import cause_of, explain
from kstorm_pipeline.local_log import NeedsSparkError
from kstorm_pipeline.local_rows import local_show, local_summary
from kstorm_pipeline.maintenance import maintain
from kstorm_pipeline.monitor.monitor import Monitor
from kstorm_pipeline.monitor.pages import serving
from kstorm_pipeline.pipeline_import import load_pipeline
from kstorm_pipeline.place_checks import check_places
from kstorm_pipeline.rebuild import rebuild
from kstorm_pipeline.run import run
from kstorm_pipeline.session import start_spark
from kstorm_pipeline.setting_values import PAIRS, PREFIX, flag
from kstorm_pipeline.settings import Settings, help_texts, load
from kstorm_pipeline.table_description import describe
from kstorm_pipeline.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_SHOWN = 10
_NEEDS = {"run": ("bootstrap_servers", "topic"), "audit": ("bootstrap_servers", "topology")}
"""The settings that each command that reads Kafka requires."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code. `argv` defaults to the process's own arguments."""
    with guarded():
        return _main(sys.argv[1:] if argv is None else argv)


def _main(words: Sequence[str]) -> int:
    try:
        if words and words[0] in ROLES:
            become(words[0], words[1:], os.environ)
        arguments = make_parser().parse_args(words)
        logging.basicConfig(
            level=logging.INFO,
            format="%(asctime)s %(levelname)s %(message)s",
            datefmt="%Y-%m-%dT%H:%M:%S",
        )
        # py4j also raises its errors as exceptions.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        return _command(arguments, load(arguments, os.environ, needs=_needs(arguments)))
    except SettingsError as error:
        print(f"kstorm_pipeline: {error}", file=sys.stderr)
        return 2
    except PipelineError as error:
        print(f"kstorm_pipeline: {error}", file=sys.stderr)
        return 1


def _needs(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return the names of the settings that the command requires."""
    needs = _NEEDS.get(arguments.command, ())
    return (
        (*needs, *_NEEDS["audit"])
        if arguments.command == "run" and arguments.audit is not None
        else needs
    )


def _command(arguments: argparse.Namespace, settings: Settings) -> int:
    monitor = Monitor(settings.stalled_seconds)
    with serving(monitor, settings.http_port if arguments.command == "run" else 0):
        try:
            return _run_command(arguments, settings, monitor)
        except (Py4JJavaError, PySparkException) as error:
            line = explain(str(error), settings)
            if line is None:
                logger.exception("the command %s failed", arguments.command)
                line = f"the command {arguments.command} failed: {cause_of(error)}"
            raise PipelineError(line) from error


def _without_spark(arguments: argparse.Namespace, settings: Settings) -> list[str] | None:
    """Return the output of a command that reads tables on a local disk, or None if it needs Spark."""
    try:
        if arguments.command == "summary":
            return [report.json_line(local_summary(settings.tables))]
        if arguments.command == "show":
            return local_show(settings.tables, arguments.table, arguments.n, arguments.by)
    except NeedsSparkError as reason:
        logger.info("Spark reads the tables: %s", reason)
    return None


def _run_command(arguments: argparse.Namespace, settings: Settings, monitor: Monitor) -> int:
    pipeline = load_pipeline(settings.pipeline)
    lines = _without_spark(arguments, settings)
    if lines is not None:
        sys.stdout.writelines(lines)
        return 0
    topic_id = ask_brokers(settings) if arguments.command in _NEEDS else None
    check_places(settings, arguments.command, topic_id)
    started = time.monotonic()
    logger.info("starting Spark on %s", settings.master)
    spark = start_spark(settings)
    logger.info("Spark %s started, %.1f s", spark.version, time.monotonic() - started)
    tables = Tables(settings.tables)
    try:
        if arguments.command == "run":
            run(spark, settings, tables, pipeline, monitor)
            _report_after_run(arguments, spark, tables)
            if arguments.audit is not None:
                return _account(spark, settings, tables, Times(), 0, arguments.audit)
        elif arguments.command == "rebuild":
            done = rebuild(spark, settings, tables, pipeline, arguments.table)
            sys.stdout.write(report.json_line(done))
        elif arguments.command == "audit":
            return _audit(arguments, spark, settings, tables)
        elif arguments.command == "maintain":
            sys.stdout.writelines(map(report.json_line, maintain(spark, settings, tables)))
        elif arguments.command == "describe":
            sys.stdout.writelines(
                map(report.json_line, describe(spark, settings, tables, arguments.table))
            )
        elif arguments.command == "show":
            sys.stdout.writelines(
                report.show(spark, tables, arguments.table, arguments.n, arguments.by)
            )
        else:
            sys.stdout.write(report.json_line(report.summary(spark, tables)))
    finally:
        spark.stop()
    return 0


def _audit(
    arguments: argparse.Namespace, spark: SparkSession, settings: Settings, tables: Tables
) -> int:
    """Print the audit's report. Return 1 if the audit found a fault, otherwise 0."""
    since = arguments.since
    if arguments.last is not None:
        since = datetime.now(UTC) - timedelta(hours=arguments.last)
    times = Times(since, arguments.until)
    return _account(spark, settings, tables, times, arguments.expect, arguments.report)


def _account(
    spark: SparkSession,
    settings: Settings,
    tables: Tables,
    times: Times,
    expect: int,
    file: Path | None,
) -> int:
    outcome = audit(spark, settings, tables, times, expect)
    text = report.json_line(outcome.summary())
    sys.stdout.write(text)
    if file is not None:
        file.write_text(text, encoding="utf-8")
    return 1 if outcome.faults else 0


def _report_after_run(arguments: argparse.Namespace, spark: SparkSession, tables: Tables) -> None:
    """Write the files that the flags of `run` request, once the tables are up to date."""
    if arguments.report is None and not arguments.export:
        return
    logger.info("reading the tables")
    for name, file in arguments.export:
        report.export(spark, tables, name, file)
    if arguments.report is not None:
        text = json.dumps({"rows": report.summary(spark, tables)}, indent=2)
        arguments.report.write_text(text + "\n", encoding="utf-8")


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kstorm_pipeline", description="Write the sink topic into Delta tables with Spark."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    of_run = commands.add_parser(
        "run", help="bring the tables up to date with the topic, or keep them up to date"
    )
    of_run.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="afterwards write the number of rows of each table, as JSON",
    )
    of_run.add_argument(
        "--export",
        type=_table_and_file,
        action="append",
        default=[],
        metavar="TABLE=FILE",
        help="afterwards write all rows of a table, as JSON lines",
    )
    of_run.add_argument(
        "--audit",
        type=Path,
        metavar="FILE",
        help="afterwards account for every message that --topology has read, and write the findings "
        "as JSON; exit code 1 if there is a fault",
    )
    of_rebuild = commands.add_parser(
        "rebuild", help="rebuild a gold table from silver; the next run puts it in place"
    )
    of_rebuild.add_argument("table", metavar="TABLE", help="a gold table of the pipeline")
    of_audit = commands.add_parser(
        "audit",
        help="account for every message that a topology has read; exit code 1 if there is a fault",
    )
    of_audit.add_argument(
        "--from",
        dest="since",
        type=_time,
        metavar="TIME",
        help="audit messages from this time on, such as 2026-11-23T10:00 (UTC)",
    )
    of_audit.add_argument(
        "--last",
        type=_positive,
        metavar="HOURS",
        help="audit the messages of the last HOURS hours, instead of --from",
    )
    of_audit.add_argument(
        "--to", dest="until", type=_time, metavar="TIME", help="audit messages before this time"
    )
    of_audit.add_argument(
        "--expect",
        type=_count,
        default=0,
        metavar="N",
        help="report an acked message as a fault if the sink has fewer than N records of it",
    )
    of_audit.add_argument(
        "--report", type=Path, metavar="FILE", help="also write the report to this file"
    )
    of_maintain = commands.add_parser(
        "maintain",
        help="combine small files, delete old files and old records of bronze; safe during a run",
    )
    of_describe = commands.add_parser(
        "describe",
        help="print columns, rows, files, size, last batch and declaration of tables, as JSON",
    )
    of_describe.add_argument(
        "table", metavar="TABLE", nargs="?", help="a table, such as silver (default: all)"
    )
    of_show = commands.add_parser("show", help="print rows of a table, as JSON lines")
    of_show.add_argument("table", metavar="TABLE", help="a table, such as silver")
    of_show.add_argument(
        "--n", type=_positive, default=_SHOWN, metavar="N", help=f"print N rows (default {_SHOWN})"
    )
    of_show.add_argument(
        "--by", metavar="COLUMN", help="print the rows with the greatest values of this column"
    )
    of_summary = commands.add_parser(
        "summary", help="print the number of rows of every table, as JSON"
    )
    for command in (of_run, of_rebuild, of_audit, of_maintain, of_describe, of_show, of_summary):
        _add_settings(command)
    return parser


def _add_settings(command: argparse.ArgumentParser) -> None:
    """Add a flag for each setting. Flags default to None, so that the environment applies."""
    texts = help_texts()
    group = command.add_argument_group(
        "settings", f"each can also be set in the environment, as {PREFIX}NAME"
    )
    for each in fields(Settings):
        text = texts[each.name].replace("%", "%%")
        if each.name in PAIRS:
            group.add_argument(
                PAIRS[each.name], dest=each.name, action="append", metavar="NAME=VALUE", help=text
            )
        else:
            group.add_argument(flag(each.name), metavar="VALUE", help=text)


def _table_and_file(text: str) -> tuple[str, Path]:
    table, _, file = text.partition("=")
    if not table or not file:
        raise argparse.ArgumentTypeError(f"{text} is not TABLE=FILE")
    return table, Path(file)


def _time(text: str) -> datetime:
    try:
        return parse_time(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: give one such as 2026-11-23T10:00 or 2026-11-23"
        ) from None


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of 1 or more")
    return number


if __name__ == "__main__":
    sys.exit(main())
