"""Filters that read the metadata of aggregates."""

from typing import Any

from minova.scheduler.filters.aggregate_extra_specs import AggregateInstanceExtraSpecsFilter
from minova.scheduler.filters.aggregate_isolation import (
    AggregateImagePropertiesIsolation,
    AggregateMultiTenancyIsolation,
    AggregateTypeAffinityFilter,
)
from tests.unit.scheduler.filters.cases import Case, check, each, error_of
from tests.unit.scheduler.requests import aggregates

SSD = {"aggregates": aggregates({"ssd": "true"})}
TWO = {"aggregates": aggregates({"gpu": "2,4", "tier": "gold"}, {"gpu": " 8 ", "note": ""})}


def flavor_with(**specs: str) -> dict[str, Any]:
    return {"extra_specs": {key.replace("__", ":"): value for key, value in specs.items()}}


EXTRA_SPECS = [
    Case(AggregateInstanceExtraSpecsFilter, "nothing asked for", None),
    Case(AggregateInstanceExtraSpecsFilter, "other scopes", None, asked=flavor_with(hw__cpu_policy="dedicated")),
    Case(
        AggregateInstanceExtraSpecsFilter,
        "the value",
        None,
        SSD,
        flavor_with(aggregate_instance_extra_specs__ssd="true"),
    ),
    Case(AggregateInstanceExtraSpecsFilter, "keys without a scope count too", None, SSD, flavor_with(ssd="true")),
    Case(
        AggregateInstanceExtraSpecsFilter,
        "another value",
        "aggregate metadata ssd true, flavor needs 'false'",
        SSD,
        flavor_with(aggregate_instance_extra_specs__ssd="false"),
    ),
    Case(
        AggregateInstanceExtraSpecsFilter,
        "no such key",
        "aggregate metadata ssd absent, flavor needs 'true'",
        asked=flavor_with(ssd="true"),
    ),
    Case(AggregateInstanceExtraSpecsFilter, "one value of many aggregates", None, TWO, flavor_with(gpu="== 8")),
    Case(AggregateInstanceExtraSpecsFilter, "= is at least", None, TWO, flavor_with(gpu="= 5")),
    Case(
        AggregateInstanceExtraSpecsFilter,
        "none of them",
        "aggregate metadata gpu 2, 4, 8, flavor needs '>= 9'",
        TWO,
        flavor_with(gpu=">= 9"),
    ),
    Case(
        AggregateInstanceExtraSpecsFilter,
        "every key must match",
        "aggregate metadata tier gold, flavor needs 's!= gold'",
        TWO,
        flavor_with(gpu="<in> 4", tier="s!= gold"),
    ),
]
PROJECTS = [
    Case(AggregateMultiTenancyIsolation, "no aggregate", None, asked={"project_id": "p1"}),
    Case(
        AggregateMultiTenancyIsolation,
        "its own project",
        None,
        {"aggregates": aggregates({"filter_tenant_id": "p1, p2"})},
        {"project_id": "p2"},
    ),
    Case(
        AggregateMultiTenancyIsolation,
        "a key that only begins so",
        None,
        {"aggregates": aggregates({"filter_tenant_id": "p1"}, {"filter_tenant_id_b": "p3"})},
        {"project_id": "p3"},
    ),
    Case(
        AggregateMultiTenancyIsolation,
        "another project",
        "only for projects p1, p2, not p9",
        {"aggregates": aggregates({"filter_tenant_id": "p2"}, {"filter_tenant_id2": "p1"})},
        {"project_id": "p9"},
    ),
]
FLAVORS = [
    Case(AggregateTypeAffinityFilter, "no aggregate", None),
    Case(AggregateTypeAffinityFilter, "its own flavor", None, {"aggregates": aggregates({"instance_type": "c1 , m1"})}),
    Case(
        AggregateTypeAffinityFilter,
        "another flavor",
        "only for flavors c1, m2, not m1",
        {"aggregates": aggregates({"instance_type": "m2"}, {"instance_type": "c1"})},
    ),
]
WINDOWS = {"aggregates": aggregates({"os_type": "windows", "note": "x", "hw_boot_menu": "True"})}
IMAGES = [
    Case(AggregateImagePropertiesIsolation, "no properties", None, WINDOWS),
    Case(AggregateImagePropertiesIsolation, "the value", None, WINDOWS, {"properties": {"os_type": "Windows"}}),
    Case(
        AggregateImagePropertiesIsolation,
        "another value",
        "image property os_type linux, the aggregate is for windows",
        WINDOWS,
        {"properties": {"os_type": "linux"}},
    ),
    Case(
        AggregateImagePropertiesIsolation,
        "a property that no aggregate names",
        None,
        WINDOWS,
        {"properties": {"note": "y"}},
    ),
    Case(AggregateImagePropertiesIsolation, "yes is True", None, WINDOWS, {"properties": {"hw_boot_menu": "yes"}}),
    Case(
        AggregateImagePropertiesIsolation, "False asks nothing", None, WINDOWS, {"properties": {"hw_boot_menu": "no"}}
    ),
    Case(
        AggregateImagePropertiesIsolation,
        "booleans compare as True and False",
        "image property hw_boot_menu True, the aggregate is for true",
        {"aggregates": aggregates({"hw_boot_menu": "true"})},
        {"properties": {"hw_boot_menu": "true"}},
    ),
    Case(
        AggregateImagePropertiesIsolation,
        "an older name of the property",
        "image property hw_architecture x86_64, the aggregate is for i686",
        {"aggregates": aggregates({"hw_architecture": "i686"})},
        {"properties": {"architecture": "amd64"}},
    ),
    Case(
        AggregateImagePropertiesIsolation,
        "a namespace narrows the keys",
        None,
        WINDOWS,
        {"properties": {"os_type": "linux"}},
        {"aggregate_image_properties_isolation_namespace": "hw"},
    ),
    Case(
        AggregateImagePropertiesIsolation,
        "keys of the namespace count",
        "image property os_type linux, the aggregate is for windows",
        WINDOWS,
        {"properties": {"os_type": "linux"}},
        {
            "aggregate_image_properties_isolation_namespace": "os",
            "aggregate_image_properties_isolation_separator": "_",
        },
    ),
]


@each([*EXTRA_SPECS, *PROJECTS, *FLAVORS, *IMAGES])
def test_aggregates(case: Case) -> None:
    check(case)


def test_an_extra_spec_that_does_not_compare_is_named() -> None:
    error = error_of(Case(AggregateInstanceExtraSpecsFilter, "", "", SSD, flavor_with(ssd="== 1")))
    assert getattr(error, "nova_name", "") == "ValueError"
    assert str(error).startswith("Extra spec ssd: '== 1' does not compare with 'true'")
