"""`/extensions`: the parts of the API that were optional before microversions. Lists Nova's names of those that are
served.
"""

from typing import Any

import msgspec

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.http.call import Call
from minova.api.http.definition import Route

# Nova has one date and one namespace for all extensions.
_UPDATED, _NAMESPACE = "2014-12-03T00:00:00Z", "http://docs.openstack.org/compute/ext/fake_xml"
# {alias: name}
_OF_SERVERS: dict[str, str] = {
    "NMN": "Multinic",
    "OS-DCF": "DiskConfig",
    "OS-EXT-AZ": "ExtendedAvailabilityZone",
    "OS-EXT-IPS": "ExtendedIps",
    "OS-EXT-IPS-MAC": "ExtendedIpsMac",
    "OS-EXT-SRV-ATTR": "ExtendedServerAttributes",
    "OS-EXT-STS": "ExtendedStatus",
    "OS-SCH-HNT": "SchedulerHints",
    "OS-SRV-USG": "ServerUsage",
    "os-access-ips": "AccessIPs",
    "os-admin-actions": "AdminActions",
    "os-admin-password": "AdminPassword",
    "os-attach-interfaces": "AttachInterfaces",
    "os-block-device-mapping-v2-boot": "BlockDeviceMappingV2Boot",
    "os-config-drive": "ConfigDrive",
    "os-console-output": "ConsoleOutput",
    "os-consoles": "Consoles",
    "os-create-backup": "CreateBackup",
    "os-deferred-delete": "DeferredDelete",
    "os-extended-rescue-with-image": "ExtendedRescueWithImage",
    "os-extended-status": "ExtendedStatus",
    "os-extended-volumes": "ExtendedVolumes",
    "os-instance-actions": "InstanceActions",
    "os-lock-server": "LockServer",
    "os-multiple-create": "MultipleCreate",
    "os-pause-server": "PauseServer",
    "os-personality": "Personality",
    "os-preserve-ephemeral-rebuild": "PreserveEphemeralOnRebuild",
    "os-rescue": "Rescue",
    "os-server-diagnostics": "ServerDiagnostics",
    "os-server-list-multi-status": "ServerListMultiStatus",
    "os-server-password": "ServerPassword",
    "os-server-sort-keys": "ServerSortKeys",
    "os-server-start-stop": "ServerStartStop",
    "os-shelve": "Shelve",
    "os-suspend-server": "SuspendServer",
    "os-user-data": "UserData",
}
_OF_OTHERS: dict[str, str] = {
    "OS-EXT-IMG-SIZE": "ImageSize",
    "OS-FLV-DISABLED": "FlavorDisabled",
    "OS-FLV-EXT-DATA": "FlavorExtraData",
    "os-aggregates": "Aggregates",
    "os-availability-zone": "AvailabilityZone",
    "os-extended-hypervisors": "ExtendedHypervisors",
    "os-extended-networks": "ExtendedNetworks",
    "os-extended-quotas": "ExtendedQuotas",
    "os-extended-services": "ExtendedServices",
    "os-extended-services-delete": "ExtendedServicesDelete",
    "os-flavor-access": "FlavorAccess",
    "os-flavor-extra-specs": "FlavorExtraSpecs",
    "os-flavor-manage": "FlavorManage",
    "os-flavor-rxtx": "FlavorRxtx",
    "os-flavor-swap": "FlavorSwap",
    "os-hosts": "Hosts",
    "os-hypervisor-status": "HypervisorStatus",
    "os-hypervisors": "Hypervisors",
    "os-instance_usage_audit_log": "OSInstanceUsageAuditLog",
    "os-keypairs": "Keypairs",
    "os-migrations": "Migrations",
    "os-networks": "Networks",
    "os-quota-class-sets": "QuotaClasses",
    "os-quota-sets": "Quotas",
    "os-security-groups": "SecurityGroups",
    "os-server-external-events": "ServerExternalEvents",
    "os-server-group-quotas": "ServerGroupQuotas",
    "os-server-groups": "ServerGroups",
    "os-services": "Services",
    "os-simple-tenant-usage": "SimpleTenantUsage",
    "os-tenant-networks": "OSTenantNetworks",
    "os-used-limits": "UsedLimits",
    "os-used-limits-for-admin": "UsedLimitsForAdmin",
}
EXTENSIONS = dict(sorted((_OF_SERVERS | _OF_OTHERS).items()))


class Extension(msgspec.Struct, frozen=True, kw_only=True):
    """An extension of Nova's API before microversions. `description` is empty: minova has none. `links` is always
    empty, as in Nova.
    """

    alias: str
    name: str
    description: str = ""
    links: tuple[str, ...] = ()
    namespace: str = _NAMESPACE
    updated: str = _UPDATED


def list_extensions(_: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return {"extensions": [Extension(alias=alias, name=name) for alias, name in EXTENSIONS.items()]}


def show(_: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    alias = call.path["extension"]
    if alias not in EXTENSIONS:
        raise errors.NotFound("The resource could not be found.")
    return {"extension": Extension(alias=alias, name=EXTENSIONS[alias])}


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/extensions",
        rule="os_compute_api:extensions",
        handler=list_extensions,
        answer={"extensions": list[Extension]},
    ),
    Route(
        method="GET",
        path="/v2.1/extensions/{extension}",
        rule="os_compute_api:extensions",
        handler=show,
        answer={"extension": Extension},
    ),
)
