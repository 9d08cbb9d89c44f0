"""The route table of the Compute API. `minova.api.app` removes `/compute` and a project id from a path before."""

from typing import Any

from minova.api.compute import external_events, flavor_access, flavors, quotas, retired, server_groups, versions
from minova.api.compute.hosts import aggregates, availability_zones, hypervisor_overview, hypervisors, services
from minova.api.compute.keypairs import keypairs
from minova.api.compute.servers import (
    actions,
    consoles,
    create,
    dry_run,
    security_groups,
    servers,
    view,
)
from minova.api.compute.servers.attributes import (
    diagnosis,
    diagnostics,
    instance_actions,
    interfaces,
    metadata,
    migrations,
    tags,
    topology,
    volumes,
)
from minova.api.compute.servers.filters import ServersQuery
from minova.api.compute.usage import audit_log, tenant_usage
from minova.api.http.definition import Route
from minova.api.image import versions as image_versions
from minova.api.policies.base import AUTHENTICATED

_FLAVOR = "/v2.1/flavors/{flavor_id}"
_SPECS = f"{_FLAVOR}/os-extra_specs"
_GROUP = "/v2.1/os-server-groups/{group_id}"
_KEYPAIR = "/v2.1/os-keypairs/{keypair_name}"
_AGGREGATE = "/v2.1/os-aggregates/{aggregate_id}"
_SERVICE = "/v2.1/os-services/{id_or_action}"
_HYPERVISOR = "/v2.1/os-hypervisors/{hypervisor_id}"
_QUOTAS = "/v2.1/os-quota-sets/{name}"
_CLASS = "/v2.1/os-quota-class-sets/{name}"
_SERVER = "/v2.1/servers/{server_id}"
_METADATA = f"{_SERVER}/metadata"

ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/", handler=versions.versions),
    Route(method="GET", path="/compute", handler=versions.versions),
    Route(method="GET", path="/v2.1", handler=versions.version),
    Route(method="GET", path="/v3", handler=versions.identity),
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
    Route(
        method="PUT",
        path=_SERVER,
        rule="os_compute_api:servers:update",
        handler=servers.update,
        body=servers.UpdateServer,
    ),
    Route(method="DELETE", path=_SERVER, rule="os_compute_api:servers:delete", handler=servers.delete, status=204),
    Route(
        method="POST",
        path=f"{_SERVER}/action",
        actions=actions.POLICIES,
        action_history=actions.KEYS,
        handler=actions.act,
        body=dict[str, Any],
        set_by_handler={202: "", 200: "for `rescue` and consoles"},
    ),
    Route(method="GET", path=f"{_SERVER}/diagnosis", rule="minova:servers:diagnosis", handler=diagnosis.show),
    Route(method="GET", path=_METADATA, rule="os_compute_api:server-metadata:index", handler=metadata.index),
    Route(
        method="POST",
        path=_METADATA,
        rule="os_compute_api:server-metadata:create",
        handler=metadata.create,
        body=metadata.ManyItems,
    ),
    Route(
        method="PUT",
        path=_METADATA,
        rule="os_compute_api:server-metadata:update_all",
        handler=metadata.replace,
        body=metadata.ManyItems,
    ),
    Route(method="GET", path=f"{_METADATA}/{{key}}", rule="os_compute_api:server-metadata:show", handler=metadata.show),
    Route(
        method="PUT",
        path=f"{_METADATA}/{{key}}",
        rule="os_compute_api:server-metadata:update",
        handler=metadata.update,
        body=metadata.OneItem,
    ),
    Route(
        method="DELETE",
        path=f"{_METADATA}/{{key}}",
        rule="os_compute_api:server-metadata:delete",
        handler=metadata.delete,
        status=204,
    ),
    Route(
        method="POST",
        path=f"{_SERVER}/remote-consoles",
        rule="os_compute_api:os-remote-consoles",
        handler=consoles.create,
        body=consoles.CreateConsole,
        since=(2, 6),
    ),
    Route(
        method="GET",
        path=f"{_SERVER}/topology",
        rule="compute:server:topology:index",
        handler=topology.show,
        since=(2, 78),
    ),
    *(
        Route(
            method=method,
            path=f"{_SERVER}/tags{item}",
            rule=f"os_compute_api:os-server-tags:{name}",
            handler=handler,
            body=body,
            status=status,
            since=(2, 26),
            set_by_handler={201: "", 204: "for a tag that it has"} if handler is tags.add else {},
        )
        for method, item, name, handler, body, status in (
            ("GET", "", "index", tags.index, None, 200),
            ("PUT", "", "update_all", tags.replace, tags.AllTags, 200),
            ("DELETE", "", "delete_all", tags.delete_all, None, 204),
            ("GET", "/{tag}", "show", tags.show, None, 204),
            ("PUT", "/{tag}", "update", tags.add, None, 201),
            ("DELETE", "/{tag}", "delete", tags.delete, None, 204),
        )
    ),
    Route(
        method="GET",
        path=f"{_SERVER}/os-instance-actions",
        rule="os_compute_api:os-instance-actions:list",
        handler=instance_actions.index,
        query=instance_actions.ActionsQuery,
    ),
    Route(
        method="GET",
        path=f"{_SERVER}/os-instance-actions/{{request_id}}",
        rule="os_compute_api:os-instance-actions:show",
        handler=instance_actions.show,
    ),
    Route(
        method="GET",
        path=f"{_SERVER}/migrations",
        rule="os_compute_api:servers:migrations:index",
        handler=migrations.index_of_server,
        since=(2, 23),
    ),
    Route(
        method="GET",
        path=f"{_SERVER}/migrations/{{migration_id}}",
        rule="os_compute_api:servers:migrations:show",
        handler=migrations.show_of_server,
        since=(2, 23),
    ),
    Route(
        method="GET",
        path="/v2.1/os-migrations",
        rule="os_compute_api:os-migrations:index",
        handler=migrations.index,
        query=migrations.MigrationsQuery,
    ),
    Route(
        method="GET",
        path=f"{_SERVER}/os-security-groups",
        rule="os_compute_api:os-security-groups:list",
        handler=security_groups.list_groups,
    ),
    Route(
        method="GET",
        path=f"{_SERVER}/os-interface",
        rule="os_compute_api:os-attach-interfaces:list",
        handler=interfaces.index,
    ),
    Route(
        method="POST",
        path=f"{_SERVER}/os-interface",
        rule="os_compute_api:os-attach-interfaces:create",
        handler=interfaces.create,
        body=interfaces.CreateAttachment,
    ),
    Route(
        method="GET",
        path=f"{_SERVER}/os-interface/{{port_id}}",
        rule="os_compute_api:os-attach-interfaces:show",
        handler=interfaces.show,
    ),
    Route(
        method="DELETE",
        path=f"{_SERVER}/os-interface/{{port_id}}",
        rule="os_compute_api:os-attach-interfaces:delete",
        handler=interfaces.delete,
        status=202,
    ),
    Route(method="GET", path=f"{_SERVER}/ips", rule="os_compute_api:ips:index", handler=servers.addresses),
    Route(
        method="GET",
        path=f"{_SERVER}/ips/{{network}}",
        rule="os_compute_api:ips:show",
        handler=servers.addresses_of_network,
    ),
    Route(
        method="GET",
        path=f"{_SERVER}/diagnostics",
        rule=diagnostics.POLICY,
        handler=diagnostics.show,
    ),
    Route(
        method="GET",
        path=f"{_SERVER}/os-server-password",
        rule="os_compute_api:os-server-password:show",
        handler=servers.show_password,
    ),
    Route(
        method="DELETE",
        path=f"{_SERVER}/os-server-password",
        rule="os_compute_api:os-server-password:clear",
        handler=servers.clear_password,
        status=204,
    ),
    *(
        Route(
            method=method,
            path=f"{_SERVER}/os-volume_attachments{item}",
            rule=f"os_compute_api:os-volumes-attachments:{name}",
            handler=volumes.refuse,
            set_by_handler={501: ""},
        )
        for method, item, name in (
            ("GET", "", "index"),
            ("POST", "", "create"),
            ("GET", "/{volume_id}", "show"),
            ("PUT", "/{volume_id}", "update"),
            ("DELETE", "/{volume_id}", "delete"),
        )
    ),
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
    Route(
        method="PUT",
        path=_FLAVOR,
        rule="os_compute_api:os-flavor-manage:update",
        handler=flavors.update,
        body=flavors.UpdateFlavor,
        since=(2, 55),
    ),
    Route(method="GET", path=_FLAVOR, rule=AUTHENTICATED, handler=flavors.show, answer=flavors.FlavorView),
    Route(
        method="DELETE", path=_FLAVOR, rule="os_compute_api:os-flavor-manage:delete", handler=flavors.delete, status=202
    ),
    Route(
        method="GET",
        path=f"{_FLAVOR}/os-flavor-access",
        rule="os_compute_api:os-flavor-access",
        handler=flavor_access.index,
    ),
    Route(
        method="POST",
        path=f"{_FLAVOR}/action",
        actions=flavor_access.POLICIES,
        handler=flavor_access.act,
        body=dict[str, Any],
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
    # -- key pairs
    Route(
        method="GET",
        path="/v2.1/os-keypairs",
        rule="os_compute_api:os-keypairs:index",
        handler=keypairs.list_key_pairs,
        query=keypairs.ListQuery,
    ),
    Route(
        method="POST",
        path="/v2.1/os-keypairs",
        rule="os_compute_api:os-keypairs:create",
        handler=keypairs.create,
        body=keypairs.CreateKeyPair,
        statuses=(keypairs.CREATED_SINCE,),
    ),
    Route(
        method="GET",
        path=_KEYPAIR,
        rule="os_compute_api:os-keypairs:show",
        handler=keypairs.show,
        query=keypairs.OneQuery,
    ),
    Route(
        method="DELETE",
        path=_KEYPAIR,
        rule="os_compute_api:os-keypairs:delete",
        handler=keypairs.delete,
        query=keypairs.OneQuery,
        status=202,
        statuses=(keypairs.DELETED_SINCE,),
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
        query=hypervisors.HypervisorsQuery,
    ),
    Route(
        method="GET",
        path="/v2.1/os-hypervisors/detail",
        rule="os_compute_api:os-hypervisors:list-detail",
        handler=hypervisors.list_detail,
        query=hypervisors.HypervisorsQuery,
    ),
    Route(
        method="GET",
        path="/v2.1/os-hypervisors/statistics",
        rule="os_compute_api:os-hypervisors:statistics",
        handler=hypervisors.statistics,
        until=(2, 87),
    ),
    Route(
        method="GET",
        path="/v2.1/os-hypervisors/audits",
        rule="minova:os-hypervisors:audits",
        handler=hypervisor_overview.list_audits,
    ),
    Route(
        method="GET",
        path=_HYPERVISOR,
        rule="os_compute_api:os-hypervisors:show",
        handler=hypervisors.show,
        query=hypervisors.OneQuery,
    ),
    Route(
        method="GET",
        path=f"{_HYPERVISOR}/search",
        rule="os_compute_api:os-hypervisors:search",
        handler=hypervisors.search,
        until=(2, 52),
    ),
    Route(
        method="GET",
        path=f"{_HYPERVISOR}/servers",
        rule="os_compute_api:os-hypervisors:servers",
        handler=hypervisors.servers_of,
        until=(2, 52),
    ),
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
        set_by_handler={501: ""},
        until=(2, 87),
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
    Route(
        method="POST",
        path="/v2.1/os-server-external-events",
        rule="os_compute_api:os-server-external-events:create",
        handler=external_events.create,
        body=external_events.CreateEvents,
        set_by_handler={200: "", 207: "where an event is not taken"},
    ),
    # -- usage
    Route(
        method="GET",
        path="/v2.1/os-simple-tenant-usage",
        rule="os_compute_api:os-simple-tenant-usage:list",
        handler=tenant_usage.index,
        query=tenant_usage.UsagesQuery,
    ),
    Route(
        method="GET",
        path="/v2.1/os-simple-tenant-usage/{project_id}",
        rule="os_compute_api:os-simple-tenant-usage:show",
        handler=tenant_usage.show,
        query=tenant_usage.UsageQuery,
    ),
    Route(
        method="GET",
        path="/v2.1/os-instance_usage_audit_log",
        rule="os_compute_api:os-instance-usage-audit-log:list",
        handler=audit_log.index,
    ),
    Route(
        method="GET",
        path="/v2.1/os-instance_usage_audit_log/{before_timestamp}",
        rule="os_compute_api:os-instance-usage-audit-log:show",
        handler=audit_log.show,
    ),
    *retired.ROUTES,
)
