"""Texts of failures for users."""

from minova import errors
from minova.objects.servers.failures import (
    INTERNAL_ERROR,
    TEXTS,
    UNKNOWN,
    Failure,
    attempts_text,
    kind_of,
    said_by_agent,
    text_of,
)


class Special(errors.ComputeResourcesUnavailable):
    pass


def test_a_failure_has_the_text_of_its_kind_or_its_own() -> None:
    kind = next(iter(TEXTS))
    assert Failure(kind=kind, details="d").message == TEXTS[kind]
    assert Failure(kind=kind, details="d", text="Own.").message == "Own."
    assert text_of(None) == text_of("no such kind") == UNKNOWN


def test_a_kind_is_the_nearest_class_that_has_a_text() -> None:
    assert "ComputeResourcesUnavailable" in TEXTS
    assert kind_of(Special("x")) == "ComputeResourcesUnavailable"
    assert kind_of(ValueError("x")) == INTERNAL_ERROR


def test_an_agent_is_quoted_if_it_has_given_a_reason() -> None:
    kind = next(iter(TEXTS))
    assert said_by_agent(kind, "") == ""
    assert said_by_agent(kind, "no such user.") == f"{TEXTS[kind]} It says: no such user."


def test_each_reason_is_named_once() -> None:
    first, second = list(TEXTS)[:2]
    assert attempts_text([second, first, second]) == f"{TEXTS[second]} {TEXTS[first]}"
