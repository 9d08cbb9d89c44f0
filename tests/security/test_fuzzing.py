"""No input makes a service answer 5xx: schemathesis makes requests from the OpenAPI description, for three identities.

MINOVA_FUZZ_SECONDS: how long; tools/check nightly takes 20 minutes. The first round has every operation, however long it takes. Each round asks
an operation at one of three microversions of Compute: the newest, 2.1, and one that the seed chooses.
"""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from minova.api.compute.versions import MAX, MIN
from minova.api.http.microversions import Version
from minova.api.image.changes.json_patch import DRAFTS
from minova.api.openapi import at, describe
from tests.security.identities import login
from tests.security.test_policy_table import Site

SECONDS = float(os.environ.get("MINOVA_FUZZ_SECONDS", "5"))
# Longer runs are those of the night.
BY_DAY = 60.0
SEED = int(os.environ.get("MINOVA_FUZZ_SEED", "0"))
# Cases of one operation in a round: by day one, since most of the time goes into making cases.
CASES = 3 if SECONDS > BY_DAY else 1
IDENTITIES = ("admin", "alice", None)
# Changes of images are JSON.
schemathesis.serializer.alias(sorted(DRAFTS), "application/json")
# What the fake hypervisor, the only one here, does not say.
NO_ADDRESS = "IpAddressGenerationFailure"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


def versions() -> tuple[Version, ...]:
    return MAX, MIN, (MIN[0], random.Random(SEED).randint(MIN[1] + 1, MAX[1] - 1))


def existing_ids(site: Site) -> dict[str, list[str]]:
    """Of resources that exist, by the variables of paths."""
    return {
        "server_id": [site.server_id() for _ in range(3)],
        "flavor_id": [site.flavor_id(), site.flavor],
        "group_id": [site.group_id() for _ in range(2)],
        "keypair_name": [site.keypair_name() for _ in range(2)],
        "image_id": [site.image],
        "hypervisor_id": ["1"],
        "network_id": [site.network_id() for _ in range(2)],
        "subnet_id": [site.subnet_id() for _ in range(2)],
        "port_id": [site.port_id() for _ in range(2)],
    }


def described(version: Version, existing: dict[str, list[str]]) -> dict[str, Any]:
    """The description, with ids of resources that exist among those of its paths."""
    document = describe(at(version))
    for path in document["paths"].values():
        for operation in path.values():
            operation["security"] = []  # else it makes credentials up, and logins are throttled
            for parameter in operation["parameters"]:
                if parameter["in"] == "path" and parameter["name"] in existing:
                    parameter["schema"] = {"anyOf": [{"enum": existing[parameter["name"]]}, parameter["schema"]]}
    return document


@pytest.mark.timeout(SECONDS + 600)
def test_no_request_of_the_description_is_answered_5xx(site: Site) -> None:
    existing = existing_ids(site)
    by_version = [operations_of(site, described(version, existing)) for version in versions()]
    kinds = [
        (place, mode, [operation.as_strategy(generation_mode=mode) for operation in alike])
        for place, alike in enumerate(at_each_version(by_version))
        for mode in modes_of(place)
    ]
    failures: dict[tuple[str, str], str] = {}
    counts: dict[int, int] = {}

    def send(case: Any, user: str | None) -> None:
        headers = {"Host": "localhost"} if user is None else {"Host": "localhost", **login(user)}
        case.path_parameters = {name: _in_path(value) for name, value in (case.path_parameters or {}).items()}
        answer = case.call(headers=headers)
        counts[answer.status_code] = counts.get(answer.status_code, 0) + 1
        route = (case.operation.method.upper(), case.operation.path)
        # As the Network API documents: the subnet is full.
        expected = answer.status_code == 503 and NO_ADDRESS in answer.text
        if answer.status_code >= 500 and not expected:
            failures.setdefault(route, f"{answer.status_code} for {user}: {case.as_curl_command()} {answer.text[:300]}")

    until = time.monotonic() + SECONDS
    number = 0
    while number == 0 or time.monotonic() < until:
        for kind in list(kinds):
            if number and time.monotonic() > until:
                break
            place, mode, cases = kind
            try:
                fuzz(cases[(place + number + SEED) % len(cases)], SEED + number, send)
            except Unsatisfiable:  # nothing can be wrong in a request without parameters
                assert mode is GenerationMode.NEGATIVE
                kinds.remove(kind)
        number += 1
    print(f"{number} rounds at {versions()}, statuses: {dict(sorted(counts.items()))}")
    assert not failures, "\n".join(failures.values())
    assert {200, 400, 401, 403, 404} <= counts.keys(), "the requests reach handlers, and refusals of each kind"


def modes_of(place: int) -> tuple[GenerationMode, ...]:
    """By day one operation has requests as they should be, and the next one wrong requests."""
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    return modes if SECONDS > BY_DAY else (modes[(place + SEED) % 2],)


def operations_of(site: Site, document: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """By method and path."""
    schema = schemathesis.openapi.from_dict(document)
    schema.app = site.cloud.app
    operations: list[Any] = [result.ok() for result in schema.get_all_operations()]  # type: ignore[union-attr]  # from our own description
    return {(operation.method, operation.path): operation for operation in operations}


def at_each_version(by_version: list[dict[tuple[str, str], Any]]) -> list[list[Any]]:
    """Each operation as the versions that have it describe it."""
    names = {name: None for operations in by_version for name in operations}
    return [[operations[name] for operations in by_version if name in operations] for name in names]


def _in_path(value: Any) -> Any:
    """Schemathesis encodes strings, and no strings within lists: a `?` there would be no part of the path."""
    return value if isinstance(value, str) else quote(str(value), safe="")


def fuzz(cases: Any, number: int, send: Any) -> None:
    """Some cases of one operation, for each identity."""

    @seed(number)
    @settings(
        max_examples=CASES,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases, user=st.sampled_from(IDENTITIES))
    def run(case: Any, user: str | None) -> None:
        send(case, user)

    run()
