"""Filters of the server listing, from query to what the database is asked."""

import re
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova import errors
from minova.api.compute.servers.filters import Rights, ServersQuery, like, order, wanted
from minova.api.http.structs import to_struct
from minova.codecs import Decoder
from minova.db.api_queries.instances import InstanceFilter

QUERY = Decoder(ServersQuery, strict=False)

PATTERNS = {
    "web": "%web%",
    "^web": "web%",
    "web$": "%web",
    "^web$": "web",
    "": "%%",
    "^$": "",
    "a.*b": "%a%b%",
    "a.b": "%a_b%",
    "50%": "%50\\%%",
    "a_b": "%a\\_b%",
    r"^a\.b\$$": "a.b$",
    r"^a\\$": "a\\\\",
    r"^a\ b$": "a b",
}
REFUSED = ["(a+)+$", "[ab]", "a|b", "a{3}", "a+", "a?", "*", "a$b", "a\\", r"\d"]


@pytest.mark.parametrize(("pattern", "expected"), PATTERNS.items())
def test_a_name_pattern_becomes_a_like_pattern(pattern: str, expected: str) -> None:
    assert like(pattern) == expected


@pytest.mark.parametrize("pattern", REFUSED)
def test_an_expression_that_could_run_for_ever_is_refused(pattern: str) -> None:
    with pytest.raises(errors.BadRequest, match="is not served"):
        like(pattern)


@given(st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=40))
def test_an_escaped_name_finds_just_itself(name: str) -> None:
    found = like(f"^{re.escape(name)}$")
    assert re.sub(r"\\(.)", r"\1", found) == name


ADMIN = Rights(is_admin=True, all_filters=True)
USER = Rights(is_admin=False, all_filters=False, refusal="no")


def ask(query: dict[str, str], *, is_admin: bool = True) -> InstanceFilter | None:
    pairs = [(key.replace("changes_since", "changes-since"), value) for key, value in query.items()]
    return wanted(to_struct(pairs, QUERY), "mine", ADMIN if is_admin else USER)


MEANINGS: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({}, {"project_id": "mine", "deleted": False}),
    ({"all_tenants": "1"}, {"project_id": None}),
    ({"all_tenants": ""}, {"project_id": None}),
    ({"all_tenants": "0"}, {"project_id": "mine"}),
    ({"project_id": "other"}, {"project_id": "other"}),
    ({"all_tenants": "True", "tenant_id": "other"}, {"project_id": "other"}),
    ({"deleted": "true"}, {"deleted": True}),
    ({"status": "active"}, {"vm_states": ("active",)}),
    ({"status": "SHUTOFF"}, {"vm_states": ("stopped",)}),
    ({"status": "DELETED"}, {"vm_states": ("deleted",), "deleted": True}),
    ({"vm_state": "error"}, {"vm_states": ("error",)}),
    ({"name": "^a"}, {"name_like": "a%"}),
    ({"flavor": "1", "image": "i", "host": "h"}, {"flavorid": "1", "image_ref": "i", "host": "h"}),
    (
        {"changes_since": "2026-01-31T12:00:00+02:00"},
        {"changed_since": datetime(2026, 1, 31, 10), "deleted": None},  # noqa: DTZ001
    ),
]


@pytest.mark.parametrize(("query", "meaning"), MEANINGS)
def test_what_a_query_means(query: dict[str, str], meaning: dict[str, Any]) -> None:
    found = ask(query)
    assert {key: getattr(found, key) for key in meaning} == meaning


@pytest.mark.parametrize("query", [{"status": "HAPPY"}, {"status": "ACTIVE", "vm_state": "error"}])
def test_a_status_that_there_is_not_matches_nothing(query: dict[str, str]) -> None:
    assert ask(query) is None


@pytest.mark.parametrize("query", [{"host": "h"}, {"project_id": "other"}, {"deleted": "1"}, {"node": "n"}])
def test_what_is_for_administrators_is_ignored_for_others(query: dict[str, str]) -> None:
    assert ask(query, is_admin=False) == ask({}, is_admin=False)


@pytest.mark.parametrize("query", [{"all_tenants": "1"}, {"status": "deleted"}])
def test_what_would_show_others_servers_is_forbidden(query: dict[str, str]) -> None:
    with pytest.raises(errors.Forbidden):
        ask(query, is_admin=False)


@pytest.mark.parametrize(
    "query", [{"all_tenants": "perhaps"}, {"changes_since": "yesterday"}, {"power_state": "x"}, {"limit": "1.5"}]
)
def test_a_value_that_means_nothing_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(errors.BadRequest):
        ask(query)


ORDERS = {
    (): [("created_at", True)],
    (("sort_dir", "asc"),): [("created_at", False)],
    (("sort_key", "display_name"),): [("display_name", True)],
    (("sort_key", "display_name"), ("sort_key", "uuid"), ("sort_dir", "asc")): [
        ("display_name", False),
        ("uuid", True),
    ],
}


@pytest.mark.parametrize(("pairs", "expected"), ORDERS.items())
def test_the_newest_come_first_unless_asked_otherwise(
    pairs: tuple[tuple[str, str], ...], expected: list[tuple[str, bool]]
) -> None:
    assert order(to_struct(list(pairs), QUERY)) == expected


@pytest.mark.parametrize("pairs", [[("sort_key", "password")], [("sort_key", "uuid"), ("sort_dir", "up")]])
def test_an_unknown_order_is_refused(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(errors.BadRequest):
        order(to_struct(pairs, QUERY))
