"""The resources that quotas limit, and the texts of refusals. Pure.

A new resource is one entry in RESOURCES. If its rows are counted by project, it also needs a counter in `db/quotas.py`.
"""

from collections.abc import Mapping

import msgspec

UNLIMITED = -1
# The only class whose limits have an effect: they apply to projects without their own limits.
DEFAULT_CLASS = "default"


class QuotaResource(msgspec.Struct, frozen=True, kw_only=True):
    """`counted`: counted by project in `quota_usages`; otherwise it limits one request or one object.

    `option`: in [quota]; None: there is no limit.
    `in_compute`: shown by the Compute API.
    `in_network`: shown and set only by the Network API.
    """

    name: str
    option: str | None
    counted: bool = False
    in_compute: bool = True
    in_network: bool = False


RESOURCES: Mapping[str, QuotaResource] = {
    resource.name: resource
    for resource in (
        QuotaResource(name="instances", option="instances", counted=True),
        QuotaResource(name="cores", option="cores", counted=True),
        QuotaResource(name="ram", option="ram", counted=True),
        QuotaResource(name="server_groups", option="server_groups", counted=True),
        QuotaResource(name="server_group_members", option="server_group_members"),
        QuotaResource(name="metadata_items", option="metadata_items"),
        QuotaResource(name="key_pairs", option="key_pairs"),
        QuotaResource(name="injected_files", option="injected_files"),
        QuotaResource(name="injected_file_content_bytes", option="injected_file_content_bytes"),
        QuotaResource(name="injected_file_path_bytes", option="injected_file_path_length"),
        # Nova shows these before microversion 2.36. The network service is responsible for them.
        QuotaResource(name="fixed_ips", option=None),
        QuotaResource(name="floating_ips", option=None),
        QuotaResource(name="security_groups", option=None),
        QuotaResource(name="security_group_rules", option=None),
        # Resources of the Network API.
        QuotaResource(name="networks", option="networks", counted=True, in_network=True),
        QuotaResource(name="subnets", option="subnets", counted=True, in_network=True),
        QuotaResource(name="ports", option="ports", counted=True, in_network=True),
        QuotaResource(name="security_group", option="security_group", counted=True, in_network=True),
        QuotaResource(name="security_group_rule", option="security_group_rule", counted=True, in_network=True),
        QuotaResource(name="address_group", option="address_group", counted=True, in_network=True),
        QuotaResource(name="subnetpool", option="subnetpool", counted=True, in_network=True),
        # Resources of Neutron that are not served: clients set their limits together with those of others.
        QuotaResource(name="router", option=None, in_network=True),
        QuotaResource(name="floatingip", option=None, in_network=True),
        QuotaResource(name="rbac_policy", option=None, in_network=True),
        # Resources of the Image API: bytes are counted, and limited in MB.
        QuotaResource(name="image_count_total", option="image_count_total", counted=True, in_compute=False),
        QuotaResource(name="image_size_total", option="image_size_total", counted=True, in_compute=False),
    )
}
COUNTED = tuple(sorted(name for name, resource in RESOURCES.items() if resource.counted))


class Overrun(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of which the request needs more than is left."""

    resource: str
    requested: int
    used: int
    limit: int


def overruns(requested: Mapping[str, int], used: Mapping[str, int], limits: Mapping[str, int]) -> tuple[Overrun, ...]:
    """Returns the resources of which not everything fits, by name. Zero and negative amounts always fit."""
    return tuple(
        Overrun(resource=name, requested=amount, used=used.get(name, 0), limit=limits[name])
        for name, amount in sorted(requested.items())
        if amount > 0 and limits[name] != UNLIMITED and used.get(name, 0) + amount > limits[name]
    )


def refusal(over: tuple[Overrun, ...], spans: Mapping[str, str] = {}) -> str:
    """Returns Nova's text. `spans`: the requested amount of a resource, if it is a range."""
    names = ", ".join(overrun.resource for overrun in over)
    requested = ", ".join(spans.get(overrun.resource, str(overrun.requested)) for overrun in over)
    used = ", ".join(str(overrun.used) for overrun in over)
    limits = ", ".join(str(overrun.limit) for overrun in over)
    return f"Quota exceeded for {names}: Requested {requested}, but already used {used} of {limits} {names}"


def count_that_fits(each: Mapping[str, int], used: Mapping[str, int], limits: Mapping[str, int], most: int) -> int:
    """Returns how many servers that each take `each` fit; at most `most`."""
    rooms = [
        max(limits[name] - used.get(name, 0), 0) // amount
        for name, amount in each.items()
        if amount > 0 and limits[name] != UNLIMITED
    ]
    return min([most, *rooms])
