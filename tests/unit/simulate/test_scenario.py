import gzip
import json
import uuid
from typing import Any

import pytest

from minova import errors
from minova.simulate.scenario import read, uuid_of

HOST = {"host": "a", "vcpus": 4, "memory_mb": 1024, "local_gb": 10}


def scenario_json(**parts: Any) -> bytes:
    return json.dumps(parts).encode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (scenario_json(hosts=[HOST, HOST, HOST, HOST | {"numa": [{"memory": "1"}]}]), "hosts[3].numa[0].memory: expected int, got str"),
        (scenario_json(hosts=[HOST | {"host": "a"}, HOST | {"host": "a"}]), "hosts[1].host: a (node a) stands there twice"),
        (scenario_json(colour="red"), "scenario: unknown key colour"),
        (scenario_json(hosts=[HOST | {"cpus": 4}]), "hosts[0]: unknown key cpus"),
        (scenario_json(hosts=[{"host": "a", "vcpus": 4}]), "hosts[0]: missing key memory_mb"),
        (scenario_json(hosts=[HOST | {"vcpus": 1.5}]), "hosts[0].vcpus: expected int, got float"),
        (scenario_json(hosts=[HOST | {"supported_instances": [["x86_64", "kvm"]]}]), "hosts[0].supported_instances[0]: expected array of length 3"),
        (scenario_json(hosts=[HOST | {"pci_pools": [{"tags": {"a": []}}]}]), "hosts[0].pci_pools[0].tags[...]: expected bool | int | float | str, got array"),
        (scenario_json(requests=[{"id": "r"}]), "requests[0]: missing key flavor"),
        (scenario_json(requests=[{"flavor": {"ram": 5}}]), "requests[0].flavor: unknown key ram"),
        (scenario_json(requests=[{"flavor": {}, "retry_hosts": [["a"]]}]), "requests[0].retry_hosts[0]: expected array of length 2"),
        (scenario_json(requests=[{"flavor": {}, "group": {"members": []}}]), "requests[0].group: missing key policy"),
        (scenario_json(aggregates=[{"metadata": 5}]), "aggregates[0].metadata: expected object, got int"),
        (scenario_json(filters=7), "filters: expected str | array | null, got int"),
        (b"[]", "scenario: expected object, got array"),
        (b"{", "not JSON: Input data was truncated"),
        (b"", "not JSON: Input data was truncated"),
        (b"\x1f\x8bnot gzip", "not a whole gzip file: "),
    ],
)  # fmt: skip
def test_what_cannot_be_read_names_its_place(data: bytes, said: str) -> None:
    with pytest.raises(errors.BadRequest) as refused:
        read(data)
    assert str(refused.value).startswith(said)


def test_a_gzipped_file_is_the_same_as_a_plain_one() -> None:
    data = scenario_json(hosts=[HOST])
    assert read(gzip.compress(data)) == read(data)


def test_a_name_that_is_no_uuid_stands_for_one() -> None:
    server_uuid = "9b0a2a3e-3f7e-4f5f-8a44-0d6f6d9d2a10"
    assert uuid_of(server_uuid) == server_uuid
    assert uuid_of("vm1") == str(uuid.uuid5(uuid.UUID("6f1c0f52-7d1a-4a53-8a0c-3f54ab1f6f11"), "vm1"))
