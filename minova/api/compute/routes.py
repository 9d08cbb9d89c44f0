"""The route table of the Compute API. `minova.api.app` removes `/compute` and a project id from a path before."""

from typing import Any

from minova.api.compute import (
    aggregates,
    availability_zones,
    flavors,
    hypervisor_overview,
    hypervisors,
    quotas,
    server_groups,
    services,
    versions,
)
from minova.api.compute.servers import actions, create, diagnosis, dry_run, servers, view
from minova.api.compute.servers.filters import ServersQuery
from minova.api.http.definition import Route
from minova.api.http.structs import Page
from minova.api.image import versions as image_versions
from minova.api.policies.base import AUTHENTICATED

_FLAVOR = "/v2.1/flavors/{flavor_id}"
_SPECS = f"{_FLAVOR}/os-extra_specs"
_GROUP = "/v2.1/os-server-groups/{group_id}"
_AGGREGATE = "/v2.1/os-aggregates/{aggregate_id}"
_SERVICE = "/v2.1/os-services/{id_or_action}"
_HYPERVISOR = "/v2.1/os-hypervisors/{hypervisor_id}"
_QUOTAS = "/v2.1/os-quota-sets/{name}"
_CLASS = "/v2.1/os-quota-class-sets/{name}"
_SERVER = "/v2.1/servers/{server_id}"

ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/", handler=versions.versions),
    Route(method="GET", path="/compute", handler=versions.versions),
    Route(method="GET", path="/v2.1", handler=versions.version),
    Route(method="GET", path="/versions", handler=image_versions.versions),
    # -- servers
    Route(
        method="GET",
        path="/v2.1/servers",
        rule="os_compute_api:servers:index",
        handler=servers.list_servers,
        query=ServersQuery,
    ),
    Route(
        method="GET",
        path="/v2.1/servers/detail",
        rule="os_compute_api:servers:detail",
        handler=servers.list_detail,
        query=ServersQuery,
    ),
    Route(
        method="POST",
        path="/v2.1/servers",
        rule="os_compute_api:servers:create",
        handler=create.create,
        body=create.CreateServer,
        answer=create.CreatedServer,
        status=202,
    ),
    Route(
        method="POST",
        path="/v2.1/servers/dry-run",
        rule="minova:servers:dry_run",
        handler=dry_run.dry_run,
        body=create.CreateServer,
    ),
    Route(
        method="POST",
        path="/v2.1/servers/capacity",
        rule="minova:servers:capacity",
        handler=dry_run.capacity,
        query=dry_run.CapacityQuery,
        body=dry_run.CapacityRequest,
    ),
    Route(method="GET", path=_SERVER, rule="os_compute_api:servers:show", handler=servers.show, answer=view.ServerView),
    Route(method="DELETE", path=_SERVER, rule="os_compute_api:servers:delete", handler=servers.delete, status=204),
    Route(method="POST", path=f"{_SERVER}/action", actions=actions.POLICIES, handler=actions.act, body=dict[str, Any]),
    Route(method="GET", path=f"{_SERVER}/diagnosis", rule="minova:servers:diagnosis", handler=diagnosis.show),
    # -- flavors
    Route(
        method="GET", path="/v2.1/flavors", rule=AUTHENTICATED, handler=flavors.list_flavors, query=flavors.FlavorsQuery
    ),
    Route(
        method="GET",
        path="/v2.1/flavors/detail",
        rule=AUTHENTICATED,
        handler=flavors.list_detail,
        query=flavors.FlavorsQuery,
    ),
    Route(
        method="POST",
        path="/v2.1/flavors",
        rule="os_compute_api:os-flavor-manage:create",
        handler=flavors.create,
        body=flavors.CreateFlavor,
    ),
    Route(method="GET", path=_FLAVOR, rule=AUTHENTICATED, handler=flavors.show, answer=flavors.FlavorView),
    Route(
        method="DELETE", path=_FLAVOR, rule="os_compute_api:os-flavor-manage:delete", handler=flavors.delete, status=202
    ),
    Route(method="GET", path=_SPECS, rule="os_compute_api:os-flavor-extra-specs:index", handler=flavors.list_specs),
    Route(
        method="POST",
        path=_SPECS,
        rule="os_compute_api:os-flavor-extra-specs:create",
        handler=flavors.create_specs,
        body=flavors.CreateSpecs,
    ),
    Route(
        method="GET",
        path=f"{_SPECS}/{{key}}",
        rule="os_compute_api:os-flavor-extra-specs:show",
        handler=flavors.show_spec,
    ),
    Route(
        method="PUT",
        path=f"{_SPECS}/{{key}}",
        rule="os_compute_api:os-flavor-extra-specs:update",
        handler=flavors.update_spec,
        body=flavors.ExtraSpecs,
    ),
    Route(
        method="DELETE",
        path=f"{_SPECS}/{{key}}",
        rule="os_compute_api:os-flavor-extra-specs:delete",
        handler=flavors.delete_spec,
    ),
    # -- server groups
    Route(
        method="GET",
        path="/v2.1/os-server-groups",
        rule="os_compute_api:os-server-groups:index",
        handler=server_groups.list_groups,
        query=server_groups.GroupsQuery,
    ),
    Route(
        method="POST",
        path="/v2.1/os-server-groups",
        rule="os_compute_api:os-server-groups:create",
        handler=server_groups.create,
        body=server_groups.CreateGroup,
    ),
    Route(method="GET", path=_GROUP, rule="os_compute_api:os-server-groups:show", handler=server_groups.show),
    Route(
        method="DELETE",
        path=_GROUP,
        rule="os_compute_api:os-server-groups:delete",
        handler=server_groups.delete,
        status=204,
    ),
    # -- quotas
    Route(
        method="GET", path="/v2.1/limits", rule="os_compute_api:limits", handler=quotas.limits, query=quotas.LimitsQuery
    ),
    Route(
        method="GET",
        path=_QUOTAS,
        rule="os_compute_api:os-quota-sets:show",
        handler=quotas.show,
        query=quotas.QuotaQuery,
    ),
    Route(
        method="PUT",
        path=_QUOTAS,
        rule="os_compute_api:os-quota-sets:update",
        handler=quotas.update,
        query=quotas.QuotaQuery,
        body=quotas.UpdateQuotaSet,
    ),
    Route(
        method="DELETE",
        path=_QUOTAS,
        rule="os_compute_api:os-quota-sets:delete",
        handler=quotas.delete,
        query=quotas.QuotaQuery,
        status=202,
    ),
    Route(
        method="GET",
        path=f"{_QUOTAS}/detail",
        rule="os_compute_api:os-quota-sets:detail",
        handler=quotas.detail,
        query=quotas.QuotaQuery,
    ),
    Route(
        method="GET",
        path=f"{_QUOTAS}/defaults",
        rule="os_compute_api:os-quota-sets:defaults",
        handler=quotas.show_defaults,
    ),
    Route(method="GET", path=_CLASS, rule="os_compute_api:os-quota-class-sets:show", handler=quotas.show_class),
    Route(
        method="PUT",
        path=_CLASS,
        rule="os_compute_api:os-quota-class-sets:update",
        handler=quotas.update_class,
        body=quotas.UpdateQuotaClassSet,
    ),
    # -- aggregates and zones
    Route(
        method="GET",
        path="/v2.1/os-availability-zone",
        rule="os_compute_api:os-availability-zone:list",
        handler=availability_zones.list_zones,
    ),
    Route(
        method="GET",
        path="/v2.1/os-availability-zone/detail",
        rule="os_compute_api:os-availability-zone:detail",
        handler=availability_zones.list_detail,
    ),
    Route(
        method="GET",
        path="/v2.1/os-aggregates",
        rule="os_compute_api:os-aggregates:index",
        handler=aggregates.list_aggregates,
    ),
    Route(
        method="POST",
        path="/v2.1/os-aggregates",
        rule="os_compute_api:os-aggregates:create",
        handler=aggregates.create,
        body=aggregates.CreateAggregate,
    ),
    Route(method="GET", path=_AGGREGATE, rule="os_compute_api:os-aggregates:show", handler=aggregates.show),
    Route(
        method="PUT",
        path=_AGGREGATE,
        rule="os_compute_api:os-aggregates:update",
        handler=aggregates.update,
        body=aggregates.UpdateAggregate,
    ),
    Route(method="DELETE", path=_AGGREGATE, rule="os_compute_api:os-aggregates:delete", handler=aggregates.delete),
    Route(
        method="POST",
        path=f"{_AGGREGATE}/action",
        actions=aggregates.POLICIES,
        handler=aggregates.act,
        body=dict[str, Any],
    ),
    # -- operators
    Route(
        method="GET",
        path="/v2.1/os-hypervisors",
        rule="os_compute_api:os-hypervisors:list",
        handler=hypervisors.list_hypervisors,
        query=Page,
    ),
    Route(
        method="GET",
        path="/v2.1/os-hypervisors/detail",
        rule="os_compute_api:os-hypervisors:list-detail",
        handler=hypervisors.list_detail,
        query=Page,
    ),
    Route(
        method="GET",
        path="/v2.1/os-hypervisors/statistics",
        rule="os_compute_api:os-hypervisors:statistics",
        handler=hypervisors.statistics,
    ),
    Route(
        method="GET",
        path="/v2.1/os-hypervisors/audits",
        rule="minova:os-hypervisors:audits",
        handler=hypervisor_overview.list_audits,
    ),
    Route(method="GET", path=_HYPERVISOR, rule="os_compute_api:os-hypervisors:show", handler=hypervisors.show),
    Route(
        method="GET",
        path=f"{_HYPERVISOR}/overview",
        rule="minova:os-hypervisors:overview",
        handler=hypervisor_overview.show,
    ),
    Route(
        method="POST",
        path=f"{_HYPERVISOR}/action",
        rule="minova:os-hypervisors:audit",
        handler=hypervisor_overview.act,
        body=dict[str, Any],
    ),
    Route(
        method="GET",
        path=f"{_HYPERVISOR}/uptime",
        rule="os_compute_api:os-hypervisors:uptime",
        handler=hypervisors.uptime,
    ),
    Route(
        method="GET",
        path="/v2.1/os-services",
        rule="os_compute_api:os-services:list",
        handler=services.list_services,
        query=services.ServicesQuery,
    ),
    Route(
        method="DELETE", path=_SERVICE, rule="os_compute_api:os-services:delete", handler=services.delete, status=204
    ),
    Route(
        method="PUT",
        path=_SERVICE,
        rule="os_compute_api:os-services:update",
        handler=services.switch,
        body=services.Switch,
    ),
)
