"""The route table of the Compute API. `minova.api.app` removes `/compute` and a project id from a path before."""

from typing import Any

from minova.api.compute import (
    aggregates,
    availability_zones,
    flavors,
    hypervisor_overview,
    hypervisors,
    server_groups,
    services,
    versions,
)
from minova.api.compute.servers import actions, create, diagnosis, dry_run, servers, view
from minova.api.compute.servers.filters import ServersQuery
from minova.api.http.definition import Route
from minova.api.http.structs import Page
from minova.api.image import versions as image_versions

_FLAVOR = "/v2.1/flavors/{flavor_id}"
_SPECS = f"{_FLAVOR}/os-extra_specs"
_GROUP = "/v2.1/os-server-groups/{group_id}"
_AGGREGATE = "/v2.1/os-aggregates/{aggregate_id}"
_SERVICE = "/v2.1/os-services/{id_or_action}"
_HYPERVISOR = "/v2.1/os-hypervisors/{hypervisor_id}"
_SERVER = "/v2.1/servers/{server_id}"

ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/", handler=versions.versions),
    Route(method="GET", path="/compute", handler=versions.versions),
    Route(method="GET", path="/v2.1", handler=versions.version),
    Route(method="GET", path="/versions", handler=image_versions.versions),
    # -- servers
    Route(method="GET", path="/v2.1/servers", handler=servers.list_servers, query=ServersQuery),
    Route(method="GET", path="/v2.1/servers/detail", handler=servers.list_detail, query=ServersQuery),
    Route(
        method="POST",
        path="/v2.1/servers",
        handler=create.create,
        body=create.CreateServer,
        answer=create.CreatedServer,
        status=202,
    ),
    Route(method="POST", path="/v2.1/servers/dry-run", handler=dry_run.dry_run, body=create.CreateServer),
    Route(
        method="POST",
        path="/v2.1/servers/capacity",
        handler=dry_run.capacity,
        query=dry_run.CapacityQuery,
        body=dry_run.CapacityRequest,
        admin=True,
    ),
    Route(method="GET", path=_SERVER, handler=servers.show, answer=view.ServerView),
    Route(method="DELETE", path=_SERVER, handler=servers.delete, status=204),
    Route(method="POST", path=f"{_SERVER}/action", handler=actions.act, body=dict[str, Any]),
    Route(method="GET", path=f"{_SERVER}/diagnosis", handler=diagnosis.show),
    # -- flavors
    Route(method="GET", path="/v2.1/flavors", handler=flavors.list_flavors, query=flavors.FlavorsQuery),
    Route(method="GET", path="/v2.1/flavors/detail", handler=flavors.list_detail, query=flavors.FlavorsQuery),
    Route(method="POST", path="/v2.1/flavors", handler=flavors.create, body=flavors.CreateFlavor, admin=True),
    Route(method="GET", path=_FLAVOR, handler=flavors.show, answer=flavors.FlavorView),
    Route(method="DELETE", path=_FLAVOR, handler=flavors.delete, status=202, admin=True),
    Route(method="GET", path=_SPECS, handler=flavors.list_specs),
    Route(method="POST", path=_SPECS, handler=flavors.create_specs, body=flavors.CreateSpecs, admin=True),
    Route(method="GET", path=f"{_SPECS}/{{key}}", handler=flavors.show_spec),
    Route(method="PUT", path=f"{_SPECS}/{{key}}", handler=flavors.update_spec, body=flavors.ExtraSpecs, admin=True),
    Route(method="DELETE", path=f"{_SPECS}/{{key}}", handler=flavors.delete_spec, admin=True),
    # -- server groups
    Route(
        method="GET",
        path="/v2.1/os-server-groups",
        handler=server_groups.list_groups,
        query=server_groups.GroupsQuery,
    ),
    Route(method="POST", path="/v2.1/os-server-groups", handler=server_groups.create, body=server_groups.CreateGroup),
    Route(method="GET", path=_GROUP, handler=server_groups.show),
    Route(method="DELETE", path=_GROUP, handler=server_groups.delete, status=204),
    # -- aggregates and zones
    Route(method="GET", path="/v2.1/os-availability-zone", handler=availability_zones.list_zones),
    Route(method="GET", path="/v2.1/os-availability-zone/detail", handler=availability_zones.list_detail, admin=True),
    Route(method="GET", path="/v2.1/os-aggregates", handler=aggregates.list_aggregates, admin=True),
    Route(
        method="POST",
        path="/v2.1/os-aggregates",
        handler=aggregates.create,
        body=aggregates.CreateAggregate,
        admin=True,
    ),
    Route(method="GET", path=_AGGREGATE, handler=aggregates.show, admin=True),
    Route(method="PUT", path=_AGGREGATE, handler=aggregates.update, body=aggregates.UpdateAggregate, admin=True),
    Route(method="DELETE", path=_AGGREGATE, handler=aggregates.delete, admin=True),
    Route(method="POST", path=f"{_AGGREGATE}/action", handler=aggregates.act, body=dict[str, Any], admin=True),
    # -- operators
    Route(method="GET", path="/v2.1/os-hypervisors", handler=hypervisors.list_hypervisors, query=Page, admin=True),
    Route(method="GET", path="/v2.1/os-hypervisors/detail", handler=hypervisors.list_detail, query=Page, admin=True),
    Route(method="GET", path="/v2.1/os-hypervisors/statistics", handler=hypervisors.statistics, admin=True),
    Route(method="GET", path="/v2.1/os-hypervisors/audits", handler=hypervisor_overview.list_audits, admin=True),
    Route(method="GET", path=_HYPERVISOR, handler=hypervisors.show, admin=True),
    Route(method="GET", path=f"{_HYPERVISOR}/overview", handler=hypervisor_overview.show, admin=True),
    Route(
        method="POST",
        path=f"{_HYPERVISOR}/action",
        handler=hypervisor_overview.act,
        body=dict[str, Any],
        admin=True,
    ),
    Route(method="GET", path=f"{_HYPERVISOR}/uptime", handler=hypervisors.uptime, admin=True),
    Route(
        method="GET", path="/v2.1/os-services", handler=services.list_services, query=services.ServicesQuery, admin=True
    ),
    Route(method="DELETE", path=_SERVICE, handler=services.delete, admin=True, status=204),
    Route(method="PUT", path=_SERVICE, handler=services.switch, body=services.Switch, admin=True),
)
