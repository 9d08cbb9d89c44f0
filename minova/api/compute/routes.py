"""The route table of the Compute API. `minova.api.app` has removed `/compute` and a project id from the path before."""

from minova.api.compute import external_events, flavor_access, flavors, quotas, server_groups, versions
from minova.api.compute.hosts import aggregates, availability_zones, hosts, hypervisor_overview, hypervisors, services
from minova.api.compute.keypairs import keypairs
from minova.api.compute.legacy import routes as legacy
from minova.api.compute.servers import consoles, create, dry_run, security_groups, servers
from minova.api.compute.servers.actions import dispatch as actions
from minova.api.compute.servers.actions import interfaces
from minova.api.compute.servers.attributes import (
    diagnosis,
    diagnostics,
    instance_actions,
    metadata,
    migrations,
    tags,
    topology,
    volumes,
)
from minova.api.compute.usage import audit_log, tenant_usage
from minova.api.http.definition import Route

ROUTES: tuple[Route, ...] = (
    *versions.ROUTES,
    *servers.ROUTES,
    *create.ROUTES,
    *dry_run.ROUTES,
    *actions.ROUTES,
    *diagnosis.ROUTES,
    *metadata.ROUTES,
    *consoles.ROUTES,
    *topology.ROUTES,
    *tags.ROUTES,
    *instance_actions.ROUTES,
    *migrations.ROUTES,
    *security_groups.ROUTES,
    *interfaces.ROUTES,
    *diagnostics.ROUTES,
    *volumes.ROUTES,
    *flavors.ROUTES,
    *flavor_access.ROUTES,
    *server_groups.ROUTES,
    *keypairs.ROUTES,
    *quotas.ROUTES,
    *availability_zones.ROUTES,
    *aggregates.ROUTES,
    *hypervisors.ROUTES,
    *hypervisor_overview.ROUTES,
    *hosts.ROUTES,
    *services.ROUTES,
    *external_events.ROUTES,
    *tenant_usage.ROUTES,
    *audit_log.ROUTES,
    *legacy.ROUTES,
)
