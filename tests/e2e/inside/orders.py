"""Runs in a pod: recomputes each order and each customer's total, and compares them with the sink.

A record is JSON with `id`, `customer`, `amount`, and the customer's `orders` and `total` so far.
Its headers name its source message.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from tests.e2e.inside.audit import audit
from tests.e2e.inside.tally import MessagePlace, SinkRecord

_PERCENT = {"DE": 19, "FR": 20, "NO": 25, None: 0}


class Order(NamedTuple):
    id: str
    customer: str
    amount: Decimal


class Orders:
    def __init__(self) -> None:
        self._orders: dict[str, Order] = {}
        self._totals: defaultdict[str, dict[int, tuple[Decimal, Decimal]]] = defaultdict(dict)
        """By customer and number of orders: the amount of the last order, and the total."""
        self._wrong: list[str] = []

    def outputs_of(self, place: MessagePlace, value: bytes) -> Sequence[str]:
        try:
            self._orders[str(place)] = _reckon(json.loads(value))
        except (LookupError, TypeError, InvalidOperation) as error:
            raise ValueError(f"{place} is no order: {error!r}") from error
        return [str(place)]

    def take(self, output: SinkRecord) -> str:
        topic, partition, offset = (
            output.headers[f"kstorm-source-{part}"].decode()
            for part in ("topic", "partition", "offset")
        )
        record = json.loads(output.value)
        name = f"{topic}-{partition}-{offset}"
        said = Order(record["id"], record["customer"], Decimal(record["amount"]))
        if said != self._orders[name]:
            self._wrong.append(f"of {name} it says {said}, and it should be {self._orders[name]}")
        step = (said.amount, Decimal(record["total"]))
        if (known := self._totals[said.customer].setdefault(record["orders"], step)) != step:
            self._wrong.append(
                f"{said.customer} has two totals of {record['orders']} orders: {known[1]} and {step[1]}"
            )
        return name

    def wrong(self) -> Sequence[str]:
        truth = defaultdict[str, list[Decimal]](list)
        for order in self._orders.values():
            truth[order.customer].append(order.amount)
        return [
            *self._wrong,
            *(
                fault
                for customer, some in sorted(truth.items())
                for fault in self._amiss(customer, some)
            ),
        ]

    def in_tables(self) -> Mapping[str, int]:
        """Return the totals in cents."""
        found = Counter[str]()
        for order in self._orders.values():
            found[order.customer] += int(order.amount * 100)
        return found

    def _amiss(self, customer: str, amounts: Sequence[Decimal]) -> Iterator[str]:
        """Check that each total is the previous one plus the amount, and the last is the sum."""
        steps, before = self._totals[customer], Decimal(0)
        for number in range(1, max(steps, default=0) + 1):
            if number not in steps:
                yield f"{customer} has no total of {number} orders"
                break
            amount, total = steps[number]
            if total != before + amount:
                yield f"{customer}'s total of {number} orders is {total}, and should be {before} + {amount}"
            before = total
        last = steps[max(steps)][1] if steps else Decimal(0)
        if (max(steps, default=0), last) != (len(amounts), sum(amounts)):
            yield f"{customer}'s {len(amounts)} orders cost {sum(amounts)}, and the last total is {last}"


def _reckon(order: dict[str, Any]) -> Order:
    """Compute an order. Raises various errors for an invalid one."""
    items, coupon, customer = order["items"], order["coupon"], order["customer"]
    if not items:
        raise ValueError("it has no items")
    net = sum((Decimal(item["price"]) * item["count"] for item in items), Decimal(0))
    if coupon is not None:
        net = max(net - Decimal(coupon["off"]), Decimal(0))
    gross = net * (100 + _PERCENT[customer["country"]]) / 100
    return Order(order["id"], customer["name"], gross.quantize(Decimal("0.01")))


if __name__ == "__main__":
    audit(Orders())
