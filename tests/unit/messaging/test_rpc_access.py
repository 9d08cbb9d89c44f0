"""Who may call what, by the user that the broker has validated."""

from typing import Any

import msgspec
import oslo_messaging
import pytest

from minova import errors
from minova.context import RequestContext
from minova.contracts.base import methods_of
from minova.contracts.conductor import ConductorApi
from minova.messaging import rpc
from minova.messaging.dispatch import Endpoint, Implementation
from minova.messaging.rpc_access import refusal
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.hosts.service import Service
from minova.objects.servers.build import BuildReport

CTX = RequestContext(request_id="req-1")
OWN, OTHER = (
    ComputeNode(uuid="u", host="hv1", hypervisor_hostname="n"),
    ComputeNode(uuid="v", host="hv2", hypervisor_hostname="n"),
)
REPORTS: dict[str, Any] = {"reports": (BuildReport(ctx=CTX, instance_uuid="i", attempt=1),)}


def service(host: str = "hv1", binary: str = "minova-compute") -> dict[str, Any]:
    return {"service": Service(uuid="u", host=host, binary=binary, topic="t")}


@pytest.mark.parametrize(
    ("sender", "method", "arguments", "reason"),
    [
        ("compute.hv1", "save_compute_node", {"node": OWN}, None),
        ("compute.hv1", "save_compute_node", {"node": OTHER}, "it speaks for host 'hv2'"),
        ("compute.hv1", "report_builds", {**REPORTS, "host": "hv1", "nodes": (OWN,)}, None),
        ("compute.hv1", "report_builds", {**REPORTS, "host": "hv1", "nodes": (OWN, OTHER)}, "it speaks for host 'hv2'"),
        ("compute.hv1", "register_service", service(), None),
        ("compute.hv1", "register_service", service(host="hv2"), "it speaks for host 'hv2'"),
        (
            "compute.hv1",
            "register_service",
            service(binary="minova-scheduler"),
            "it speaks for service 'minova-scheduler'",
        ),
        ("scheduler.hv1", "register_service", service(binary="minova-scheduler"), None),
        ("compute.hv1", "hosts_of_instances", {"instance_uuids": ("i",)}, None),
        ("compute.hv1", "delete_flavor", {"flavorid": "1"}, "services of the kind compute may not call it"),
        ("scheduler.hv1", "instances_of_host", {"host": "hv1"}, "services of the kind scheduler may not call it"),
        ("api.hv1", "delete_flavor", {"flavorid": "1"}, None),
        ("metadata.hv1", "metadata_of_address", {"host": "hv1", "address": "10.0.0.5", "network_id": "n"}, None),
        (
            "metadata.hv1",
            "metadata_of_address",
            {"host": "hv2", "address": "10.0.0.5", "network_id": "n"},
            "it speaks for host 'hv2'",
        ),
        (
            "metadata.hv1",
            "metadata_of_instance",
            {"instance_uuid": "i", "project_id": "p"},
            "services of the kind metadata may not call it",
        ),
        ("metadataproxy.net1", "metadata_of_instance", {"instance_uuid": "i", "project_id": "p"}, None),
        (
            "metadataproxy.net1",
            "metadata_of_address",
            {"host": "net1", "address": "10.0.0.5", "network_id": "n"},
            "services of the kind metadataproxy may not call it",
        ),
        (
            "compute.hv1",
            "metadata_of_address",
            {"host": "hv1", "address": "10.0.0.5", "network_id": "n"},
            "services of the kind compute may not call it",
        ),
        (None, "delete_flavor", {"flavorid": "1"}, "it has no user of a service at the broker"),
        ("minova", "heartbeat", {"host": "a", "binary": "b"}, "it has no user of a service at the broker"),
    ],
)
def test_refusal(sender: str | None, method: str, arguments: dict[str, Any], reason: str | None) -> None:
    contract_method = methods_of(ConductorApi)[method]
    assert (
        refusal(sender, contract_method, contract_method.arguments.from_builtins(msgspec.to_builtins(arguments)))
        == reason
    )


@pytest.mark.parametrize("request_id", ["req-1\n2026 ERROR forged", "", "x" * 65, "req\x1b[2J", "req-ü", "req-1\n"])
def test_id_of_a_request_that_would_break_a_log_line_is_refused(request_id: str) -> None:
    wire = {"request_id": request_id, "user_id": "u", "project_id": "p"}
    with pytest.raises(msgspec.ValidationError):
        rpc._Serializer().deserialize_context(wire)
    claims = [{"ctx": wire, "instance_uuid": "i", "attempt": 1}]
    with pytest.raises(msgspec.ValidationError):
        methods_of(ConductorApi)["claim_instances"].arguments.from_builtins({"claims": claims, "node": {}})


@pytest.mark.parametrize("field", ["user_id", "project_id", "process"])
@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\x1b[1m", "a\u2028b", "x" * 256])
def test_other_words_of_a_context_stay_on_their_line(field: str, value: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        rpc._Serializer().deserialize_context({"request_id": "req-1", field: value})


def test_sender_is_never_sent() -> None:
    sent = rpc._Serializer().serialize_context(msgspec.structs.replace(CTX, sender="compute.hv1"))
    assert "sender" not in sent


def test_refused_call_does_no_work() -> None:
    done: list[str] = []

    class Manager:
        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: done.append(name)

    endpoint = Endpoint(Implementation(parts=(Manager(),)), ConductorApi, known_senders=True)
    with pytest.raises(oslo_messaging.ExpectedException) as refused:
        endpoint.delete_flavor(msgspec.structs.replace(CTX, sender="compute.hv1"), flavorid="1")  # type: ignore[attr-defined]
    assert refused.value.exc_info[0] is errors.Forbidden
    assert done == []
    endpoint.delete_flavor(msgspec.structs.replace(CTX, sender="api.ctl"), flavorid="1")  # type: ignore[attr-defined]
    assert done == ["delete_flavor"]
