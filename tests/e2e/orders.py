"""The orders topology, fed with JSON of several customers. Some messages can never be processed."""

import itertools
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tests.e2e.trial import Tables, Trial

_ORDERS: Final = 400
_POISON_EVERY: Final = 50
_CUSTOMERS: Final = {
    "Ann": "DE",
    "Ben": "FR",
    "Chloé": "FR",
    "Dag": "NO",
    "Eve": None,
    "Øystein": "NO",
    "Zoë & Sons": None,
}
_GOODS: Final = ("tea", "cup", "kettle", "sugar", "spoon", "tray")


def lines() -> Sequence[str]:
    """Return always the same orders, with invalid lines in between."""
    rng, poison = random.Random(16), itertools.cycle(_poison())
    found = []
    for number in range(_ORDERS):
        found.append(json.dumps(_order(rng), ensure_ascii=False))
        if number % _POISON_EVERY == 0:
            found.append(next(poison))
    return found


def _poison() -> Iterator[str]:
    """Yield unprocessable lines. The spout cannot read the first, `check` refuses the others."""
    tea = {"name": "tea", "price": "3.20", "count": 1}
    order: dict[str, Any] = {
        "id": "p-{message-number}",
        "customer": {"name": "Ann", "country": "DE"},
        "coupon": None,
    }
    yield "this is no JSON"
    some = [
        order,
        {**order, "items": []},
        {**order, "items": [{**tea, "price": "3,20"}]},
        {**order, "items": [tea], "customer": {"name": "Xi", "country": "XX"}},
        {**order, "items": [tea], "customer": None},
    ]
    yield from map(json.dumps, some)


def _order(rng: random.Random) -> dict[str, Any]:
    customer = rng.choice(list(_CUSTOMERS))
    return {
        "id": "o-{message-number}",
        "customer": {"name": customer, "country": _CUSTOMERS[customer], "phone": None},
        "items": [_item(rng) for _ in range(rng.randint(1, 4))],
        "coupon": rng.choice([None, None, {"code": "TEN", "off": "1.50"}]),
        "note": None,
    }


def _item(rng: random.Random) -> dict[str, Any]:
    cents = rng.randint(1, 5000)
    return {
        "name": rng.choice(_GOODS),
        "price": f"{cents // 100}.{cents % 100:02}",
        "count": rng.randint(1, 9),
    }


ORDERS: Final = Trial(
    name="orders",
    reference="examples.orders.topology:topology",
    source="orders",
    sink="order-totals",
    spout="orders",
    bolts=("check", "tax", "join", "total", "sink"),
    stateless="check",
    stateful="total",
    holding="join",
    outputs="orders",
    lines=lines,
    audit="orders",
    probe='{"id": "{marker}", "customer": {"name": "probe", "country": null}, "coupon": null, '
    '"items": [{"name": "tea", "price": "1.00", "count": 1}]}',
    tables=Tables(
        "examples.orders.tables:pipeline",
        "customers",
        "customer",
        "CAST(amount * 100 AS BIGINT)",
        "cents",
    ),
)
