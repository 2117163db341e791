"""Storm's `TestJoinBolt`, with its numbers of rows."""

from collections.abc import Sequence
from typing import Any

import pytest

from kstorm.testing import BoltTester
from kstorm.windows import Count, JoinBolt

USERS = (
    ("userId", "name", "city"),
    [
        [1, "roshan", "san jose"],
        [2, "harsha", "santa clara"],
        [3, "siva", "dublin"],
        [4, "hugo", "san mateo"],
        [5, "suresh", "sunnyvale"],
        [6, "guru", "palo alto"],
        [7, "arun", "bengaluru"],
        [8, "satish", "mumbai"],
        [9, "mani", "bengaluru"],
        [10, "priyank", "seattle"],
    ],
)
ORDERS = (
    ("orderId", "userId", "itemId", "price"),
    [
        [11, 2, 21, 7],
        [12, 2, 22, 3],
        [13, 3, 23, 4],
        [14, 4, 24, 5],
        [15, 5, 25, 2],
        [16, 6, 26, 7],
        [17, 6, 27, 4],
        [18, 7, 28, 2],
        [19, 8, 29, 9],
    ],
)
STORES = (
    ("storeId", "storeName", "city"),
    [
        [1, "store1", "san jose"],
        [2, "store2", "santa clara"],
        [3, "store3", "dublin"],
        [4, "store4", "san mateo"],
        [5, "store5", "bengaluru"],
    ],
)
CITIES = (
    ("cityId", "cityName", "country"),
    [
        [1, "san jose", "US"],
        [2, "santa clara", "US"],
        [3, "dublin", "US"],
        [4, "san mateo", "US"],
        [5, "sunnyvale", "US"],
        [6, "palo alto", "US"],
        [7, "bengaluru", "India"],
        [8, "mumbai", "India"],
        [9, "chennai", "India"],
    ],
)
STREAMS: dict[str, tuple[Sequence[str], list[list[Any]]]] = {
    "users": USERS,
    "orders": ORDERS,
    "stores": STORES,
    "cities": CITIES,
}


def rows(join: JoinBolt, *streams: str) -> list[list[Any]]:
    """Returns the join of one window with these streams."""
    inputs: dict[Any, Any] = {(f"{name}Spout", name): STREAMS[name][0] for name in streams}
    size = sum(len(STREAMS[name][1]) for name in streams)
    tester = BoltTester(join.with_tumbling_window(Count(size)), inputs=inputs)
    for name in streams:
        for row in STREAMS[name][1]:
            tester.give(row, (f"{name}Spout", name))
    assert tester.errors == []
    return tester.emitted()


def users(field: str) -> JoinBolt:
    return JoinBolt("users", field, by_stream=True)


@pytest.mark.parametrize(
    ("join", "streams", "number"),
    [
        (users("userId").select("userId,name,city"), ["users"], 10),
        (
            users("userId").join("orders", "userId", "users").select("userId,name,price"),
            ["orders", "users"],
            9,
        ),
        (
            users("userId").left_join("orders", "userId", "users").select("userId,name,price"),
            ["orders", "users"],
            12,
        ),
        (
            users("city")
            .join("stores", "city", "users")
            .join("cities", "cityName", "stores")
            .select("name,storeName,city,country"),
            ["users", "stores", "cities"],
            6,
        ),
        (
            users("city")
            .left_join("stores", "city", "users")
            .left_join("cities", "cityName", "users")
            .select("name,storeName,city,country"),
            ["users", "cities", "stores"],
            10,
        ),
        (
            users("city")
            .join("stores", "city", "users")
            .left_join("cities", "cityName", "users")
            .select("name,storeName,city,country"),
            ["users", "cities", "stores"],
            6,
        ),
    ],
    ids=["trivial", "inner", "left", "three inner", "three left 1", "three mixed"],
)
def test_as_many_rows_as_in_storm(join: JoinBolt, streams: list[str], number: int) -> None:
    assert len(rows(join, *streams)) == number


def test_fields_with_the_name_of_their_stream() -> None:
    """`testProjection_FieldsWithStreamName`: every field has a value."""
    join = users("city").join("stores", "city", "users")
    found = rows(join.select("userId,name,storeName,users:city,stores:city"), "stores", "users")
    assert len(found) == 6
    assert all(None not in row and row[3] == row[4] for row in found)


def test_chained_left_joins_keep_every_row_unlike_storm() -> None:
    """`testThreeStreamLeftJoin_2`: Storm drops the four users without a store, and gets 6 rows."""
    join = (
        users("city")
        .left_join("stores", "city", "users")
        .left_join("cities", "cityName", "stores")
        .select("name,storeName,users:city,country")
    )
    found = rows(join, "users", "cities", "stores")
    assert sorted(row[0] for row in found) == sorted(str(name) for _, name, _ in USERS[1])
    assert ["suresh", None, "sunnyvale", None] in found
    assert ["arun", "store5", "bengaluru", "India"] in found
