"""`kstorm migrate compare`: compare what Storm and kstorm wrote for the same input.

kstorm migrate compare counts counts-canary
kstorm migrate compare counts counts-canary --last --key '^eu-' --since 1h
"""

import re
import time
from dataclasses import asdict
from typing import Annotated, Final

import typer
from rich.table import Table

from kstorm.cli.json_output import Json, print_json
from kstorm.cli.place_options import Bootstrap, settings_for
from kstorm.cli.trace import parse_age
from kstorm.errors import ConfigError
from kstorm.operations.migration.outputs import Output, collect, count_kinds, differences
from kstorm.runtime.base.terminal import Screen
from kstorm.runtime.kafka.broker_reachability import check_reachable
from kstorm.runtime.kafka.whole_topic import read_whole_topic

_SHOWN: Final = 20


def compare(
    storm: Annotated[str, typer.Argument(metavar="STORM_TOPIC", help="The topic of Storm's sink.")],
    kstorm: Annotated[
        str, typer.Argument(metavar="KSTORM_TOPIC", help="The topic that kstorm's sink writes.")
    ],
    key: Annotated[
        str, typer.Option("--key", metavar="REGEX", help="Compare only keys that match.")
    ] = "",
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="AGE", help="Leave out older records, such as 30m or 2h."),
    ] = None,
    last: Annotated[
        bool,
        typer.Option("--last", help="Compare only the last value of each key, such as a count."),
    ] = False,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Count equal records once, because at least once may repeat them."
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--as-json", help="Compare values as JSON: spaces and order do not matter."),
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=0, metavar="N", help="Show at most N keys.")
    ] = _SHOWN,
    json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Compare the records of two topics by key: missing, extra and differing ones.

    Exits with 1 if they are not the same. Let both systems finish the same input first.
    """
    settings = settings_for(bootstrap)
    check_reachable(settings)
    try:
        pattern = re.compile(key.encode())
    except re.error as error:
        raise ConfigError(f"--key {key}: this is not a regular expression: {error}") from None
    begin = None if since is None else int((time.time() - parse_age(since)) * 1000)

    def read(topic: str) -> Output:
        records = ((each.key(), each.value()) for each in read_whole_topic(settings, topic, begin))
        return collect(
            records,
            wanted=lambda found: pattern.search(found) is not None,
            only_last=last,
            once=once,
            as_json=as_json,
        )

    comparison = _Comparison((storm, read(storm)), (kstorm, read(kstorm)), limit)
    if json:
        print_json(comparison.as_json())
    else:
        comparison.show()
    raise typer.Exit(1 if comparison.differences else 0)


class _Comparison:
    """The outputs of two topics, each with the topic's name, and their differences."""

    def __init__(self, storm: tuple[str, Output], kstorm: tuple[str, Output], limit: int) -> None:
        """`limit` is the largest number of keys to show."""
        self.differences = list(differences(storm[1], kstorm[1]))
        self._sides = {"Storm": storm, "kstorm": kstorm}
        self._kinds = count_kinds(self.differences)
        self._limit = limit

    def as_json(self) -> dict[str, object]:
        return {
            **{
                side.lower(): {"topic": topic, "records": output.records, "keys": len(output.keys)}
                for side, (topic, output) in self._sides.items()
            },
            **self._kinds,
            "differences": [asdict(each) for each in self.differences[: self._limit]],
        }

    def show(self) -> None:
        screen = Screen(markup=False, emoji=False, highlight=False)
        screen.print(self._sizes())
        if self.differences:
            screen.print(self._first_differences())
        print(
            f"keys missing in {self._sides['kstorm'][0]}: {self._kinds['missing']}, "
            f"extra: {self._kinds['extra']}, with differing records: {self._kinds['differs']}"
        )

    def _sizes(self) -> Table:
        table = Table()
        for name in ("", "topic", "records", "keys"):
            table.add_column(name, justify="right" if name in ("records", "keys") else "left")
        for side, (topic, output) in self._sides.items():
            table.add_row(side, topic, str(output.records), str(len(output.keys)))
        return table

    def _first_differences(self) -> Table:
        shown = self.differences[: self._limit]
        table = Table(title=f"first {len(shown)} of {len(self.differences)} differing keys")
        for name in ("key", "difference", "Storm", "kstorm", "unequal records"):
            table.add_column(name, overflow="fold")
        for each in shown:
            table.add_row(
                each.key or "–", each.kind, str(each.storm), str(each.kstorm), str(each.unequal)
            )
        return table
