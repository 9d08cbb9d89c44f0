"""Bodies of Placement by microversion: each takes its own form, and neither an older one nor what is to come."""

from typing import Any

import pytest

from minova.api.http.json_schema import InvalidDocument, VersionedSchemas, check, newest
from minova.api.placement import schemas

UUID = "7ba866a2-e6fd-56dc-93b5-1b32c1d3c2a5"
LIST = [{"resource_provider": {"uuid": UUID}, "resources": {"VCPU": 1}}]
BY_PROVIDER = {UUID: {"resources": {"VCPU": 1}}}
OWNERS = {"project_id": "p", "user_id": "u"}
GENERATION = {"consumer_generation": None}
MAPPINGS = {"mappings": {"": [UUID], "_net-1": [UUID]}}
TYPE = {"consumer_type": "INSTANCE"}

# What PUT /allocations/{uuid} takes in turn, and from when.
FORMS: list[tuple[tuple[int, int], Any]] = [
    ((1, 0), {"allocations": LIST}),
    ((1, 8), {"allocations": LIST, **OWNERS}),
    ((1, 12), {"allocations": BY_PROVIDER, **OWNERS}),
    ((1, 28), {"allocations": BY_PROVIDER, **OWNERS, **GENERATION}),
    ((1, 38), {"allocations": BY_PROVIDER, **OWNERS, **GENERATION, **MAPPINGS, **TYPE}),
]


def taken(versions: VersionedSchemas, version: tuple[int, int], document: Any) -> bool:
    try:
        check(document, newest(versions, version))
    except InvalidDocument:
        return False
    return True


@pytest.mark.parametrize("since", [since for since, _ in FORMS])
def test_allocations_have_one_form_at_a_time(since: tuple[int, int]) -> None:
    assert [form for form, document in FORMS if taken(schemas.SET_ALLOCATIONS, since, document)] == [since]


@pytest.mark.parametrize(
    ("version", "document", "right"),
    [
        ((1, 12), {"allocations": {}, **OWNERS}, False),
        ((1, 28), {"allocations": {}, **OWNERS, **GENERATION}, True),
        ((1, 28), {"allocations": BY_PROVIDER, **OWNERS, "consumer_generation": "1"}, False),
        ((1, 33), {"allocations": BY_PROVIDER, **OWNERS, **GENERATION, **MAPPINGS}, False),
        ((1, 34), {"allocations": BY_PROVIDER, **OWNERS, **GENERATION, **MAPPINGS}, True),
        ((1, 34), {"allocations": BY_PROVIDER, **OWNERS, **GENERATION, "mappings": {}}, False),
        ((1, 34), {"allocations": BY_PROVIDER, **OWNERS, **GENERATION, "mappings": {"": ["a"]}}, False),
        ((1, 38), {"allocations": BY_PROVIDER, **OWNERS, **GENERATION, "consumer_type": "instance"}, False),
        ((1, 12), {"allocations": {UUID: {"resources": {"VCPU": 1}, "generation": 3}}, **OWNERS}, True),
        ((1, 12), {"allocations": {UUID: {"resources": {"VCPU": 1.5}}}, **OWNERS}, False),
        ((1, 12), {"allocations": {UUID: {"resources": {"vcpu": 1}}}, **OWNERS}, False),
        ((1, 12), {"allocations": {"here": {"resources": {"VCPU": 1}}}, **OWNERS}, False),
        ((1, 12), {"allocations": BY_PROVIDER, "project_id": "", "user_id": "u"}, False),
        ((1, 12), {"allocations": BY_PROVIDER, "project_id": "p" * 256, "user_id": "u"}, False),
    ],
)
def test_allocations_are_strict(version: tuple[int, int], document: Any, right: bool) -> None:
    assert taken(schemas.SET_ALLOCATIONS, version, document) == right


@pytest.mark.parametrize(
    ("versions", "version", "document", "right"),
    [
        (schemas.MAKE_PROVIDER, (1, 13), {"name": "a", "parent_provider_uuid": UUID}, False),
        (schemas.MAKE_PROVIDER, (1, 14), {"name": "a", "parent_provider_uuid": UUID}, True),
        (schemas.MAKE_PROVIDER, (1, 14), {"name": "a", "parent_provider_uuid": None}, True),
        (schemas.MAKE_PROVIDER, (1, 0), {"name": "a" * 201}, False),
        (schemas.MAKE_PROVIDER, (1, 0), {"name": "a", "uuid": UUID.replace("-", "").upper()}, True),
        (schemas.CHANGE_PROVIDER, (1, 39), {"name": "a", "uuid": UUID}, False),
        (schemas.ADD_INVENTORY, (1, 0), {"resource_class": "VCPU", "total": 1, "allocation_ratio": 0.5}, True),
        (schemas.ADD_INVENTORY, (1, 0), {"resource_class": "VCPU", "total": 1, "allocation_ratio": 1e39}, False),
        (schemas.ADD_INVENTORY, (1, 0), {"resource_class": "VCPU", "total": "1"}, False),
        (schemas.ADD_INVENTORY, (1, 0), {"resource_class": "VCPU", "total": 1, "used": 1}, False),
        (schemas.CHANGE_INVENTORY, (1, 0), {"total": 1}, False),
        (schemas.SET_AGGREGATES, (1, 18), [UUID], True),
        (schemas.SET_AGGREGATES, (1, 18), [UUID, UUID], False),
        (schemas.SET_AGGREGATES, (1, 19), [UUID], False),
        (schemas.SET_AGGREGATES, (1, 19), {"aggregates": [UUID], "resource_provider_generation": 0}, True),
        (schemas.RESOURCE_CLASS, (1, 2), {"name": "CUSTOM_"}, False),
        (schemas.RESOURCE_CLASS, (1, 2), {"name": "CUSTOM_A_1"}, True),
        (schemas.RESHAPE, (1, 30), {"inventories": {}, "allocations": {}}, False),
        (schemas.MANY_ALLOCATIONS, (1, 13), {UUID: FORMS[2][1]}, True),
        (schemas.MANY_ALLOCATIONS, (1, 28), {UUID: FORMS[2][1]}, False),
    ],
)
def test_other_bodies_are_strict(
    versions: VersionedSchemas, version: tuple[int, int], document: Any, right: bool
) -> None:
    assert taken(versions, version, document) == right
