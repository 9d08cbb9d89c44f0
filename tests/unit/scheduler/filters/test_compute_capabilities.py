"""ComputeCapabilitiesFilter, and the operators of extra specs."""

import json
from typing import Any

import numpy as np
import pytest

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters.compute_capabilities import ComputeCapabilitiesFilter
from minova.scheduler.filters.extra_specs import match
from minova.scheduler.hosts.record import ImageSupport, ServiceFacts
from minova.scheduler.hosts.state import HostState
from tests.unit.scheduler.filters.cases import Case, check, each, error_of
from tests.unit.scheduler.hosts import record, table_of
from tests.unit.scheduler.requests import options, request

CPU = {"arch": "x86_64", "topology": {"cores": 12}, "features": ["aes", "avx2"], "maxphysaddr": {"bits": 46}}
HOST = {"cpu_info": json.dumps(CPU), "stats": {"rack": "r1", "num_proj_p1": 2}, "memory_mb_used": 1024}
OLD = {"image_support": ImageSupport(hypervisor_type="KVM", hypervisor_version=6002000)}


@pytest.mark.parametrize(
    ("value", "requirement", "matches"),
    [
        ("5", "= 5", True),
        ("6", "= 5", True),
        ("4", "= 5", False),
        ("5.0", "== 5", True),
        ("5.1", "== 5", False),
        ("5", "!= 5", False),
        ("5", "!= 4", True),
        ("5", ">= 5", True),
        ("4.9", ">= 5", False),
        ("5", "<= 5", True),
        ("5.1", "<= 5", False),
        ("gold", "s== gold", True),
        ("gold", "s== silver", False),
        ("gold", "s!= gold", False),
        ("gold", "s!= silver", True),
        ("10", "s< 9", True),
        ("9", "s< 10", False),
        ("b", "s<= b", True),
        ("c", "s<= b", False),
        ("b", "s> a", True),
        ("a", "s> a", False),
        ("a", "s>= a", True),
        ("a", "s>= b", False),
        ("avx2", "<in> avx", True),
        ("aes", "<in> avx", False),
        ("aes avx", "<all-in> avx aes", True),
        ("aes", "<all-in> avx aes", False),
        ("2", "<or> 1 <or> 2", True),
        ("3", "<or> 1 <or> 2", False),
        ("2", "<or> 1 2", False),
        ("2", "<or> 1 and 2", True),
        ("gold", "gold", True),
        ("gold", "Gold", False),
        ("> 5", "> 5", True),
        ("6", "> 5", False),
        ("", "", True),
        ("5", "==", False),
        ("gold", "s==", False),
        ("5", "== 5 and more", True),
    ],
)
def test_operators(value: str, requirement: str, matches: bool) -> None:
    assert match(value, requirement) is matches


@pytest.mark.parametrize(
    ("value", "requirement", "kind"),
    [("5", ">= many", ValueError), ("gold", "== 5", ValueError), ("gold", "<or>", IndexError)],
)
def test_what_does_not_compare(value: str, requirement: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        match(value, requirement)


def refused_case(key: str, requirement: str, reason: str | None, sentence: str, host: dict[str, Any] = HOST) -> Case:
    return Case(ComputeCapabilitiesFilter, sentence, reason, host, {"extra_specs": {key: requirement}})


@each(
    [
        Case(ComputeCapabilitiesFilter, "nothing asked for", None),
        refused_case("hw:cpu_policy", "dedicated", None, "another scope"),
        refused_case("capabilities:free_ram_mb", ">= 31744", None, "a number"),
        refused_case(
            "capabilities:free_ram_mb",
            ">= 31745",
            "capabilities:free_ram_mb 31744, flavor needs '>= 31745'",
            "a number too small",
        ),
        refused_case("free_ram_mb", ">= 1", None, "without a scope"),
        refused_case("free_ram_mb", "<= 1", "free_ram_mb 31744, flavor needs '<= 1'", "without a scope, lost"),
        refused_case("colour", "red", None, "without a scope what no host has is not looked at"),
        refused_case("memory_mb", "<= 1", None, "names that Nova's HostState does not have are none"),
        refused_case(
            "capabilities:colour", "red", "capabilities:colour unknown, flavor needs 'red'", "with it, it must be there"
        ),
        refused_case("rack", "r1", None, "stats without a scope"),
        refused_case("rack", "r2", "rack r1, flavor needs 'r2'", "stats without a scope, lost"),
        refused_case("capabilities:rack", "<or> r1 <or> r2", None, "stats behind the attributes"),
        refused_case("capabilities:stats:rack", "r1", None, "stats by name"),
        refused_case("capabilities:num_proj_p1", "2", None, "stats are text"),
        refused_case("capabilities:cpu_info:arch", "s== x86_64", None, "into JSON text"),
        refused_case("capabilities:cpu_info:topology:cores", "<= 12", None, "deeper"),
        refused_case("capabilities:cpu_info:features", "<in> avx", None, "a list is searched as text"),
        refused_case(
            "capabilities:cpu_info:features",
            "<in> sse",
            "capabilities:cpu_info:features ['aes', 'avx2'], flavor needs '<in> sse'",
            "a list without it",
        ),
        refused_case(
            "capabilities:cpu_info:vendor", "x", "capabilities:cpu_info:vendor unknown, flavor needs 'x'", "not in it"
        ),
        refused_case(
            "capabilities:cpu_info:arch",
            "x",
            "capabilities:cpu_info:arch unknown, flavor needs 'x'",
            "no cpu_info at all",
            {"cpu_info": ""},
        ),
        refused_case(
            "capabilities:cpu_info",
            "= 1",
            "capabilities:cpu_info unknown, flavor needs '= 1'",
            "an empty cpu_info is none",
            {"cpu_info": ""},
        ),
        refused_case(
            "capabilities:host:name", "x", "capabilities:host:name unknown, flavor needs 'x'", "into what is no JSON"
        ),
        refused_case("capabilities:hypervisor_type", "KVM", None, "a class", OLD),
        refused_case(
            "capabilities:hypervisor_version",
            "!= 6002000",
            "capabilities:hypervisor_version 6002000, flavor needs '!= 6002000'",
            "a class, lost",
            OLD,
        ),
        refused_case(
            "capabilities:service:disabled",
            "s== True",
            "capabilities:service:disabled unknown, flavor needs 's== True'",
            "as in Nova, extra specs cannot look into the service",
            {"service": ServiceFacts(disabled=True)},
        ),
        refused_case("hw:maxphysaddr_bits", "46", None, "wide addresses"),
        refused_case(
            "hw:maxphysaddr_bits", "52", "hw:maxphysaddr_bits 46, flavor needs '>= 52'", "addresses too narrow"
        ),
    ]
)
def test_capabilities(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    ("requirement", "kind"), [(">= many", "ValueError"), ("<or>", "IndexError")], ids=["no number", "no value"]
)
def test_a_requirement_that_does_not_compare_is_named(requirement: str, kind: str) -> None:
    error = error_of(
        Case(ComputeCapabilitiesFilter, "", "", asked={"extra_specs": {"capabilities:vcpus_total": requirement}})
    )
    assert getattr(error, "nova_name", "") == kind
    assert str(error).startswith(f"Extra spec capabilities:vcpus_total: '{requirement}' does not compare with '16'")


def test_a_key_that_fails_hides_the_malformed_one_behind_it() -> None:
    specs = {"capabilities:free_ram_mb": ">= 999999", "capabilities:vcpus_total": ">= many"}
    check(
        Case(
            ComputeCapabilitiesFilter,
            "",
            "capabilities:free_ram_mb 32768, flavor needs '>= 999999'",
            asked={"extra_specs": specs},
        )
    )


class Counting(ComputeCapabilitiesFilter):
    def __init__(self) -> None:
        super().__init__(options())
        self.judged: list[str] = []

    def refusal_reason(self, host: HostState, spec: RequestSpec) -> str | None:
        self.judged.append(host.host)
        return super().refusal_reason(host, spec)


@pytest.mark.parametrize(
    ("key", "times"),
    [
        ("capabilities:vcpus_used", 3),
        ("capabilities:hypervisor_type", 1),
        ("capabilities:stats:rack", 30),
        ("hw:other", 0),
    ],
)
def test_hosts_that_are_alike_are_judged_once(key: str, times: int) -> None:
    table, host_filter = table_of(*(record(number, vcpus_used=number % 3) for number in range(1, 31))), Counting()
    host_filter.filter_table(table, np.ones(30, bool), request(extra_specs={key: "s== x"}))
    assert len(host_filter.judged) == times
