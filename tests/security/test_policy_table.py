"""What each identity is answered by each route. The answers are written here, not derived from the policies.

A route, or an action of one, that has no row fails `test_every_route_has_a_row`, except an action of servers for the members of a project.
"""

import itertools
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import falcon.testing
import pytest

from minova.api.app import make_app
from minova.api.compute.legacy import retired
from minova.api.compute.routes import ROUTES as COMPUTE
from minova.api.compute.servers.actions.dispatch import KEYS
from minova.api.http.definition import Route
from minova.api.http.microversions import HIGHEST, LOWEST, text
from minova.api.image.routes import ROUTES as IMAGE
from minova.api.network.routes import ROUTES as NETWORK
from minova.api.placement.routes import ROUTES as PLACEMENT
from minova.context import RequestContext
from minova.db import models
from minova.objects.actions.table import BY_KEY
from tests.functional.api.compute.test_flavors_and_hosts import node, service
from tests.security.identities import login, with_users

Json = dict[str, Any]
JSON_PATCH = "application/openstack-images-v2.1-json-patch"
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJLtrHm4fqOCnWXY7oawaplY1O17aR4pe9DBoosOaJmz"

# The resources in the paths belong to alice's project. `svc` has the role service, and no other.
IDENTITIES = ("admin", "alice", "rita", "bob", "rob", "svc", "anonymous")
USER_ROLES = ["alice:acme:member", "rita:acme:reader", "bob:globex:member", "rob:globex:reader", "svc:services:service"]

# Columns: administrator, member, reader, member and reader of another project, service, without credentials.
# Statuses; what one identity is refused by its role is 403, what it cannot see is 404.
COMPUTE_TABLE = """
GET /                                                     200 200 200 200 200 200 200
GET /compute                                              200 200 200 200 200 200 200
GET /v2.0                                                 200 200 200 200 200 200 200
GET /v2.1                                                 200 200 200 200 200 200 200
GET /v3                                                   200 200 200 200 200 200 200
GET /versions                                             200 200 200 200 200 200 200
GET /v2.1/servers                                         200 200 200 200 200 403 401
GET /v2.1/servers/detail                                  200 200 200 200 200 403 401
POST /v2.1/servers                                        202 202 403 400 403 403 401
POST /v2.1/servers/dry-run                                200 200 403 400 403 403 401
POST /v2.1/servers/capacity                               200 403 403 403 403 403 401
GET /v2.1/servers/{server_id}                             200 200 200 404 404 403 401
DELETE /v2.1/servers/{server_id}                          204 204 403 404 403 403 401
POST /v2.1/servers/{server_id}/action os-getConsoleOutput 200 200 403 404 403 403 401
POST /v2.1/servers/{server_id}/action os-getVNCConsole    200 200 403 404 403 403 401
POST /v2.1/servers/{server_id}/action os-getSerialConsole 200 200 403 404 403 403 401
POST /v2.1/servers/{server_id}/action os-getSPICEConsole  400 400 403 404 403 403 401
POST /v2.1/servers/{server_id}/action os-getRDPConsole    400 400 403 404 403 403 401
POST /v2.1/servers/{server_id}/action rescue              200 200 403 404 403 403 401
POST /v2.1/servers/{server_id}/action forceDelete         202 202 403 404 403 403 401
POST /v2.1/servers/{server_id}/action shelveOffload       202 403 403 403 403 403 401
POST /v2.1/servers/{server_id}/action evacuate            200 403 403 403 403 403 401
POST /v2.1/servers/{server_id}/action/dry-run evacuate    200 403 403 403 403 403 401
POST /v2.1/servers/{server_id}/action resize              400 400 403 404 403 403 401
POST /v2.1/servers/{server_id}/action confirmResize       204 204 403 404 403 403 401
POST /v2.1/servers/{server_id}/action migrate             202 403 403 403 403 403 401
POST /v2.1/servers/{server_id}/action os-migrateLive      202 403 403 403 403 403 401
POST /v2.1/servers/{server_id}/action/dry-run resize      400 400 403 404 403 403 401
POST /v2.1/servers/{server_id}/action/dry-run migrate     200 403 403 403 403 403 401
POST /v2.1/servers/{server_id}/action/dry-run os-migrateLive 200 403 403 403 403 403 401
POST /v2.1/servers/{server_id}/action lock                202 202 403 404 403 403 401
POST /v2.1/servers/{server_id}/action unlock              202 202 403 404 403 403 401
POST /v2.1/servers/{server_id}/action addSecurityGroup    202 202 403 404 403 403 401
POST /v2.1/servers/{server_id}/action removeSecurityGroup 202 202 403 404 403 403 401
POST /v2.1/servers/{server_id}/action addFixedIp          404 404 403 404 403 403 401
POST /v2.1/servers/{server_id}/action removeFixedIp       400 400 403 404 403 403 401
POST /v2.1/servers/{server_id}/action os-resetState       202 403 403 403 403 403 401
PUT /v2.1/servers/{server_id}                             200 200 403 404 403 403 401
GET /v2.1/servers/{server_id}/metadata                    200 200 200 404 404 403 401
POST /v2.1/servers/{server_id}/metadata                   200 200 403 404 403 403 401
PUT /v2.1/servers/{server_id}/metadata                    200 200 403 404 403 403 401
GET /v2.1/servers/{server_id}/metadata/{key}              200 200 200 404 404 403 401
PUT /v2.1/servers/{server_id}/metadata/{key}              200 200 403 404 403 403 401
DELETE /v2.1/servers/{server_id}/metadata/{key}           204 204 403 404 403 403 401
GET /v2.1/servers/{server_id}/os-instance-actions         200 200 200 404 404 403 401
GET /v2.1/servers/{server_id}/os-instance-actions/{request_id} 404 404 404 404 404 403 401
GET /v2.1/servers/{server_id}/os-security-groups          200 200 200 404 404 403 401
GET /v2.1/servers/{server_id}/os-interface                200 200 200 404 404 403 401
POST /v2.1/servers/{server_id}/os-interface               404 404 403 404 403 403 401
GET /v2.1/servers/{server_id}/os-interface/{port_id}      404 404 404 404 404 403 401
DELETE /v2.1/servers/{server_id}/os-interface/{port_id}   404 404 403 404 403 403 401
GET /v2.1/servers/{server_id}/ips                         200 200 200 404 404 403 401
GET /v2.1/servers/{server_id}/ips/{network}               404 404 404 404 404 403 401
GET /v2.1/servers/{server_id}/os-server-password          200 200 200 404 404 403 401
DELETE /v2.1/servers/{server_id}/os-server-password       204 204 403 404 403 403 401
GET /v2.1/servers/{server_id}/migrations                  200 403 403 403 403 403 401
GET /v2.1/servers/{server_id}/migrations/{migration_id}   404 403 403 403 403 403 401
DELETE /v2.1/servers/{server_id}/migrations/{migration_id} 409 403 403 403 403 403 401
POST /v2.1/servers/{server_id}/migrations/{migration_id}/action 409 403 403 403 403 403 401
GET /v2.1/os-migrations                                   200 403 403 403 403 403 401
GET /v2.1/servers/{server_id}/os-volume_attachments       200 200 200 404 404 403 401
POST /v2.1/servers/{server_id}/os-volume_attachments      501 501 403 404 403 403 401
GET /v2.1/servers/{server_id}/os-volume_attachments/{volume_id} 501 501 501 404 404 403 401
PUT /v2.1/servers/{server_id}/os-volume_attachments/{volume_id} 501 501 403 404 403 403 401
DELETE /v2.1/servers/{server_id}/os-volume_attachments/{volume_id} 501 501 403 404 403 403 401
POST /v2.1/servers/{server_id}/remote-consoles            200 200 403 404 403 403 401
GET /v2.1/servers/{server_id}/diagnostics                 409 403 403 403 403 403 401
GET /v2.1/servers/{server_id}/topology                    200 200 200 404 404 403 401
GET /v2.1/servers/{server_id}/tags                        200 200 200 404 404 403 401
PUT /v2.1/servers/{server_id}/tags                        200 200 403 404 403 403 401
DELETE /v2.1/servers/{server_id}/tags                     204 204 403 404 403 403 401
GET /v2.1/servers/{server_id}/tags/{tag}                  204 204 204 404 404 403 401
PUT /v2.1/servers/{server_id}/tags/{tag}                  204 204 403 404 403 403 401
DELETE /v2.1/servers/{server_id}/tags/{tag}               204 204 403 404 403 403 401
GET /v2.1/servers/{server_id}/diagnosis                   404 404 404 404 404 403 401
GET /v2.1/flavors                                         200 200 200 200 200 200 401
GET /v2.1/flavors/detail                                  200 200 200 200 200 200 401
POST /v2.1/flavors                                        200 403 403 403 403 403 401
GET /v2.1/flavors/{flavor_id}                             200 200 200 200 200 200 401
PUT /v2.1/flavors/{flavor_id}                             200 403 403 403 403 403 401
DELETE /v2.1/flavors/{flavor_id}                          202 403 403 403 403 403 401
GET /v2.1/flavors/{flavor_id}/os-flavor-access            404 403 403 403 403 403 401
POST /v2.1/flavors/{flavor_id}/action addTenantAccess     200 403 403 403 403 403 401
POST /v2.1/flavors/{flavor_id}/action removeTenantAccess  404 403 403 403 403 403 401
GET /v2.1/flavors/{flavor_id}/os-extra_specs              200 200 200 200 200 403 401
POST /v2.1/flavors/{flavor_id}/os-extra_specs             200 403 403 403 403 403 401
GET /v2.1/flavors/{flavor_id}/os-extra_specs/{key}        200 200 200 200 200 403 401
PUT /v2.1/flavors/{flavor_id}/os-extra_specs/{key}        200 403 403 403 403 403 401
DELETE /v2.1/flavors/{flavor_id}/os-extra_specs/{key}     200 403 403 403 403 403 401
GET /v2.1/os-server-groups                                200 200 200 200 200 403 401
POST /v2.1/os-server-groups                               200 200 403 200 403 403 401
GET /v2.1/os-server-groups/{group_id}                     200 200 200 404 404 403 401
DELETE /v2.1/os-server-groups/{group_id}                  204 204 403 404 403 403 401
GET /v2.1/os-keypairs                                     200 200 200 200 200 200 401
POST /v2.1/os-keypairs                                    200 200 200 200 200 200 401
GET /v2.1/os-keypairs/{keypair_name}                      404 200 404 404 404 404 401
DELETE /v2.1/os-keypairs/{keypair_name}                   404 202 404 404 404 404 401
GET /v2.1/limits                                          200 200 200 200 200 200 401
GET /v2.1/os-quota-sets/{name}                            200 200 200 403 403 403 401
PUT /v2.1/os-quota-sets/{name}                            200 403 403 403 403 403 401
DELETE /v2.1/os-quota-sets/{name}                         202 403 403 403 403 403 401
GET /v2.1/os-quota-sets/{name}/detail                     200 200 200 403 403 403 401
GET /v2.1/os-quota-sets/{name}/defaults                   200 200 200 200 200 200 401
GET /v2.1/os-quota-class-sets/{name}                      200 403 403 403 403 403 401
PUT /v2.1/os-quota-class-sets/{name}                      200 403 403 403 403 403 401
GET /v2.1/os-availability-zone                            200 200 200 200 200 403 401
GET /v2.1/os-availability-zone/detail                     200 403 403 403 403 403 401
GET /v2.1/os-aggregates                                   200 403 403 403 403 403 401
POST /v2.1/os-aggregates                                  200 403 403 403 403 403 401
GET /v2.1/os-aggregates/{aggregate_id}                    200 403 403 403 403 403 401
PUT /v2.1/os-aggregates/{aggregate_id}                    200 403 403 403 403 403 401
DELETE /v2.1/os-aggregates/{aggregate_id}                 200 403 403 403 403 403 401
POST /v2.1/os-aggregates/{aggregate_id}/action add_host     200 403 403 403 403 403 401
POST /v2.1/os-aggregates/{aggregate_id}/action remove_host  404 403 403 403 403 403 401
POST /v2.1/os-aggregates/{aggregate_id}/action set_metadata 200 403 403 403 403 403 401
POST /v2.1/os-aggregates/{aggregate_id}/images            202 403 403 403 403 403 401
GET /v2.1/os-hypervisors                                  200 403 403 403 403 403 401
GET /v2.1/os-hypervisors/detail                           200 403 403 403 403 403 401
GET /v2.1/os-hypervisors/statistics until 2.87            200 403 403 403 403 403 401
GET /v2.1/os-hypervisors/audits                           200 403 403 403 403 403 401
GET /v2.1/os-hypervisors/{hypervisor_id}                  200 403 403 403 403 403 401
GET /v2.1/os-hypervisors/{hypervisor_id}/overview         200 403 403 403 403 403 401
POST /v2.1/os-hypervisors/{hypervisor_id}/action          409 403 403 403 403 403 401
GET /v2.1/os-hypervisors/{hypervisor_id}/uptime until 2.87 400 403 403 403 403 403 401
GET /v2.1/os-hypervisors/{hypervisor_id}/search until 2.52 200 403 403 403 403 403 401
GET /v2.1/os-hypervisors/{hypervisor_id}/servers until 2.52 200 403 403 403 403 403 401
GET /v2.1/os-services                                     200 403 403 403 403 403 401
PUT /v2.1/os-services/{id_or_action}                      200 403 403 403 403 403 401
DELETE /v2.1/os-services/{id_or_action}                   400 403 403 403 403 403 401
POST /v2.1/os-server-external-events                      200 403 403 403 403 200 401
GET /v2.1/os-simple-tenant-usage                          200 403 403 403 403 403 401
GET /v2.1/os-simple-tenant-usage/{project_id}             200 200 200 403 403 403 401
GET /v2.1/os-instance_usage_audit_log                     200 403 403 403 403 403 401
GET /v2.1/os-instance_usage_audit_log/{before_timestamp}  200 403 403 403 403 403 401
GET /v2.1/images until 2.35                               200 200 200 200 200 403 401
GET /v2.1/images/detail until 2.35                        200 200 200 200 200 403 401
GET /v2.1/images/{image_id} until 2.35                    200 200 200 404 404 403 401
DELETE /v2.1/images/{image_id} until 2.35                 204 204 403 404 403 403 401
GET /v2.1/images/{image_id}/metadata until 2.38           200 200 200 404 404 403 401
POST /v2.1/images/{image_id}/metadata until 2.38          200 200 403 404 403 403 401
PUT /v2.1/images/{image_id}/metadata until 2.38           200 200 403 404 403 403 401
GET /v2.1/images/{image_id}/metadata/{key} until 2.38     404 404 404 404 404 403 401
PUT /v2.1/images/{image_id}/metadata/{key} until 2.38     200 200 403 404 403 403 401
DELETE /v2.1/images/{image_id}/metadata/{key} until 2.38  404 404 403 404 403 403 401
GET /v2.1/os-floating-ip-pools until 2.35                 200 200 200 200 200 403 401
GET /v2.1/os-floating-ips until 2.35                      200 200 200 200 200 403 401
GET /v2.1/os-floating-ips/{id} until 2.35         404 404 404 404 404 403 401
GET /v2.1/os-networks until 2.35                          200 200 200 200 200 403 401
GET /v2.1/os-networks/{network_id} until 2.35             200 200 200 404 404 403 401
GET /v2.1/os-tenant-networks until 2.35                   200 200 200 200 200 403 401
GET /v2.1/os-tenant-networks/{network_id} until 2.35      200 200 200 404 404 403 401
GET /v2.1/os-security-groups until 2.35                   200 200 200 200 200 403 401
POST /v2.1/os-security-groups until 2.35                  200 200 403 200 403 403 401
GET /v2.1/os-security-groups/{security_group_id} until 2.35    200 200 200 404 404 403 401
PUT /v2.1/os-security-groups/{security_group_id} until 2.35    200 200 403 404 403 403 401
DELETE /v2.1/os-security-groups/{security_group_id} until 2.35 202 202 403 404 403 403 401
POST /v2.1/os-security-group-rules until 2.35             200 200 403 404 403 403 401
DELETE /v2.1/os-security-group-rules/{security_group_rule_id} until 2.35 202 202 403 404 403 403 401
GET /v2.1/extensions                                      200 200 200 200 200 200 401
GET /v2.1/extensions/{extension}                          200 200 200 200 200 200 401
GET /v2.1/os-hosts until 2.42                             200 403 403 403 403 403 401
GET /v2.1/os-hosts/{host_name} until 2.42                 200 403 403 403 403 403 401
PUT /v2.1/os-hosts/{host_name} until 2.42                 200 403 403 403 403 403 401
GET /v2.1/os-hosts/{host_name}/startup until 2.42         501 403 403 403 403 403 401
GET /v2.1/os-hosts/{host_name}/shutdown until 2.42        501 403 403 403 403 403 401
GET /v2.1/os-hosts/{host_name}/reboot until 2.42          501 403 403 403 403 403 401
"""
# An action of the table without a row is one for the members of the server's project.
_ROWS = "".join(
    f"POST /v2.1/servers/{{server_id}}/action {key} 202 202 403 404 403 403 401\n"
    for key in BY_KEY
    if f"/action {key} " not in COMPUTE_TABLE
)
COMPUTE_TABLE += _ROWS
# What Nova has removed is gone for each user.
COMPUTE_TABLE += "".join(f"{route.method} {route.path} 410 410 410 410 410 410 401\n" for route in retired.ROUTES)
IMAGE_TABLE = """
GET /image                                                300 300 300 300 300 300 300
GET /v2                                                   300 300 300 300 300 300 300
GET /v2/images                                            200 200 200 200 200 403 401
POST /v2/images                                           201 201 403 201 403 403 401
GET /v2/images/{image_id}                                 200 200 200 404 404 403 401
DELETE /v2/images/{image_id}                              204 204 403 404 403 403 401
PUT /v2/images/{image_id}/file                            204 204 403 404 403 403 401
GET /v2/images/{image_id}/file                            204 204 403 404 403 403 401
PATCH /v2/images/{image_id}                               200 200 403 404 403 403 401
PUT /v2/images/{image_id}/stage                           204 204 403 404 403 403 401
POST /v2/images/{image_id}/import                         409 409 403 404 403 403 401
PUT /v2/images/{image_id}/tags/{tag}                      204 204 403 404 403 403 401
DELETE /v2/images/{image_id}/tags/{tag}                   404 404 403 404 403 403 401
POST /v2/images/{image_id}/actions/deactivate             204 204 403 404 403 403 401
POST /v2/images/{image_id}/actions/reactivate             204 204 403 404 403 403 401
GET /v2/images/{image_id}/members                         200 200 200 404 404 403 401
POST /v2/images/{image_id}/members                        200 200 403 404 403 403 401
GET /v2/images/{image_id}/members/{member_id}             404 404 404 404 404 403 401
PUT /v2/images/{image_id}/members/{member_id}             404 403 403 404 403 403 401
DELETE /v2/images/{image_id}/members/{member_id}          404 404 403 404 403 403 401
GET /v2/info/import                                       200 200 200 200 200 200 401
GET /v2/info/stores                                       404 404 404 404 404 404 401
GET /v2/schemas/images                                    200 200 200 200 200 200 401
GET /v2/schemas/image                                     200 200 200 200 200 200 401
GET /v2/schemas/members                                   200 200 200 200 200 200 401
GET /v2/schemas/member                                    200 200 200 200 200 200 401
"""
NETWORK_TABLE = """
GET /                                                     200 200 200 200 200 200 200
GET /v2.0                                                 200 200 200 200 200 200 200
GET /v2.0/extensions                                      200 200 200 200 200 200 401
GET /v2.0/extensions/{alias}                              200 200 200 200 200 200 401
GET /v2.0/agents                                          200 403 403 403 403 403 401
GET /v2.0/agents/{agent_id}                               404 403 403 403 403 403 401
GET /v2.0/availability_zones                              200 200 200 200 200 403 401
GET /v2.0/network-ip-availabilities                       200 403 403 403 403 403 401
GET /v2.0/network-ip-availabilities/{network_id}          200 403 403 403 403 403 401
GET /v2.0/routers                                         200 200 200 200 200 403 401
GET /v2.0/floatingips                                     200 200 200 200 200 403 401
GET /v2.0/rbac-policies                                   200 200 200 200 200 403 401
GET /v2.0/service-providers                               200 200 200 200 200 200 401
GET /v2.0/networks                                        200 200 200 200 200 403 401
POST /v2.0/networks                                       201 201 403 201 403 403 401
GET /v2.0/networks/{network_id}                           200 200 200 404 404 403 401
PUT /v2.0/networks/{network_id}                           200 200 403 404 403 403 401
DELETE /v2.0/networks/{network_id}                        204 204 403 404 403 403 401
GET /v2.0/subnets                                         200 200 200 200 200 403 401
POST /v2.0/subnets                                        201 201 403 404 403 403 401
GET /v2.0/subnets/{subnet_id}                             200 200 200 404 404 403 401
PUT /v2.0/subnets/{subnet_id}                             200 200 403 404 403 403 401
DELETE /v2.0/subnets/{subnet_id}                          204 204 403 404 403 403 401
GET /v2.0/ports                                           200 200 200 200 200 403 401
POST /v2.0/ports                                          201 201 403 404 403 403 401
GET /v2.0/ports/{port_id}                                 200 200 200 404 404 403 401
PUT /v2.0/ports/{port_id}                                 200 200 403 404 403 403 401
DELETE /v2.0/ports/{port_id}                              204 204 403 404 403 403 401
GET /v2.0/quotas                                          200 403 403 403 403 403 401
GET /v2.0/quotas/{project_id}                             200 200 200 403 403 403 401
GET /v2.0/quotas/{project_id}/default                     200 200 200 403 403 403 401
GET /v2.0/quotas/{project_id}/details                     200 200 200 403 403 403 401
PUT /v2.0/quotas/{project_id}                             200 403 403 403 403 403 401
DELETE /v2.0/quotas/{project_id}                          204 403 403 403 403 403 401
GET /v2.0/networks/{network_id}/tags                      200 200 200 404 404 403 401
PUT /v2.0/networks/{network_id}/tags                      200 200 403 404 403 403 401
POST /v2.0/networks/{network_id}/tags                     200 200 403 404 403 403 401
DELETE /v2.0/networks/{network_id}/tags                   204 204 403 404 403 403 401
GET /v2.0/networks/{network_id}/tags/{tag}                404 404 404 404 404 403 401
PUT /v2.0/networks/{network_id}/tags/{tag}                201 201 403 404 403 403 401
DELETE /v2.0/networks/{network_id}/tags/{tag}             404 404 403 404 403 403 401
GET /v2.0/subnets/{subnet_id}/tags                        200 200 200 404 404 403 401
PUT /v2.0/subnets/{subnet_id}/tags                        200 200 403 404 403 403 401
POST /v2.0/subnets/{subnet_id}/tags                       200 200 403 404 403 403 401
DELETE /v2.0/subnets/{subnet_id}/tags                     204 204 403 404 403 403 401
GET /v2.0/subnets/{subnet_id}/tags/{tag}                  404 404 404 404 404 403 401
PUT /v2.0/subnets/{subnet_id}/tags/{tag}                  201 201 403 404 403 403 401
DELETE /v2.0/subnets/{subnet_id}/tags/{tag}               404 404 403 404 403 403 401
GET /v2.0/ports/{port_id}/tags                            200 200 200 404 404 403 401
PUT /v2.0/ports/{port_id}/tags                            200 200 403 404 403 403 401
POST /v2.0/ports/{port_id}/tags                           200 200 403 404 403 403 401
DELETE /v2.0/ports/{port_id}/tags                         204 204 403 404 403 403 401
GET /v2.0/ports/{port_id}/tags/{tag}                      404 404 404 404 404 403 401
PUT /v2.0/ports/{port_id}/tags/{tag}                      201 201 403 404 403 403 401
DELETE /v2.0/ports/{port_id}/tags/{tag}                   404 404 403 404 403 403 401
GET /v2.0/security-groups/{security_group_id}/tags        200 200 200 404 404 403 401
PUT /v2.0/security-groups/{security_group_id}/tags        200 200 403 404 403 403 401
POST /v2.0/security-groups/{security_group_id}/tags       200 200 403 404 403 403 401
DELETE /v2.0/security-groups/{security_group_id}/tags     204 204 403 404 403 403 401
GET /v2.0/security-groups/{security_group_id}/tags/{tag}  404 404 404 404 404 403 401
PUT /v2.0/security-groups/{security_group_id}/tags/{tag}  201 201 403 404 403 403 401
DELETE /v2.0/security-groups/{security_group_id}/tags/{tag} 404 404 403 404 403 403 401
GET /v2.0/security-groups                                 200 200 200 200 200 403 401
POST /v2.0/security-groups                                201 201 403 201 403 403 401
GET /v2.0/security-groups/{security_group_id}             200 200 200 404 404 403 401
PUT /v2.0/security-groups/{security_group_id}             200 200 403 404 403 403 401
DELETE /v2.0/security-groups/{security_group_id}          204 204 403 404 403 403 401
GET /v2.0/security-group-rules                            200 200 200 200 200 403 401
POST /v2.0/security-group-rules                           201 201 403 404 403 403 401
GET /v2.0/security-group-rules/{security_group_rule_id}   200 200 200 404 404 403 401
DELETE /v2.0/security-group-rules/{security_group_rule_id} 204 204 403 404 403 403 401
GET /v2.0/security-group-rules/{security_group_rule_id}/tags 200 200 200 404 404 403 401
PUT /v2.0/security-group-rules/{security_group_rule_id}/tags 200 200 403 404 403 403 401
POST /v2.0/security-group-rules/{security_group_rule_id}/tags 200 200 403 404 403 403 401
DELETE /v2.0/security-group-rules/{security_group_rule_id}/tags 204 204 403 404 403 403 401
GET /v2.0/security-group-rules/{security_group_rule_id}/tags/{tag} 404 404 404 404 404 403 401
PUT /v2.0/security-group-rules/{security_group_rule_id}/tags/{tag} 201 201 403 404 403 403 401
DELETE /v2.0/security-group-rules/{security_group_rule_id}/tags/{tag} 404 404 403 404 403 403 401
GET /v2.0/address-groups                                  200 200 200 200 200 403 401
POST /v2.0/address-groups                                 201 201 403 201 403 403 401
GET /v2.0/address-groups/{address_group_id}               200 200 200 404 404 403 401
PUT /v2.0/address-groups/{address_group_id}               200 200 403 404 403 403 401
DELETE /v2.0/address-groups/{address_group_id}            204 204 403 404 403 403 401
PUT /v2.0/address-groups/{address_group_id}/add_addresses 200 200 403 404 403 403 401
PUT /v2.0/address-groups/{address_group_id}/remove_addresses 404 404 403 404 403 403 401
GET /v2.0/address-groups/{address_group_id}/tags          200 200 200 404 404 403 401
PUT /v2.0/address-groups/{address_group_id}/tags          200 200 403 404 403 403 401
POST /v2.0/address-groups/{address_group_id}/tags         200 200 403 404 403 403 401
DELETE /v2.0/address-groups/{address_group_id}/tags       204 204 403 404 403 403 401
GET /v2.0/address-groups/{address_group_id}/tags/{tag}    404 404 404 404 404 403 401
PUT /v2.0/address-groups/{address_group_id}/tags/{tag}    201 201 403 404 403 403 401
DELETE /v2.0/address-groups/{address_group_id}/tags/{tag} 404 404 403 404 403 403 401
GET /v2.0/subnetpools                                     200 200 200 200 200 403 401
POST /v2.0/subnetpools                                    201 201 403 201 403 403 401
GET /v2.0/subnetpools/{subnetpool_id}                     200 200 200 404 404 403 401
PUT /v2.0/subnetpools/{subnetpool_id}                     200 200 403 404 403 403 401
DELETE /v2.0/subnetpools/{subnetpool_id}                  204 204 403 404 403 403 401
GET /v2.0/subnetpools/{subnetpool_id}/tags                200 200 200 404 404 403 401
PUT /v2.0/subnetpools/{subnetpool_id}/tags                200 200 403 404 403 403 401
POST /v2.0/subnetpools/{subnetpool_id}/tags               200 200 403 404 403 403 401
DELETE /v2.0/subnetpools/{subnetpool_id}/tags             204 204 403 404 403 403 401
GET /v2.0/subnetpools/{subnetpool_id}/tags/{tag}          404 404 404 404 404 403 401
PUT /v2.0/subnetpools/{subnetpool_id}/tags/{tag}          201 201 403 404 403 403 401
DELETE /v2.0/subnetpools/{subnetpool_id}/tags/{tag}       404 404 403 404 403 403 401
"""
PLACEMENT_TABLE = """
GET /                                                     200 200 200 200 200 200 200
GET /resource_classes                                     200 403 403 403 403 200 401
POST /resource_classes                                    201 403 403 403 403 201 401
GET /resource_classes/{name}                              200 403 403 403 403 200 401
PUT /resource_classes/{name}                              204 403 403 403 403 204 401
PUT /resource_classes/{name} until 1.6                    200 403 403 403 403 200 401
DELETE /resource_classes/{name}                           204 403 403 403 403 204 401
GET /resource_providers                                   200 403 403 403 403 200 401
POST /resource_providers                                  200 403 403 403 403 200 401
GET /resource_providers/{uuid}                            200 403 403 403 403 200 401
PUT /resource_providers/{uuid}                            200 403 403 403 403 200 401
DELETE /resource_providers/{uuid}                         204 403 403 403 403 204 401
GET /resource_providers/{uuid}/inventories                200 403 403 403 403 200 401
POST /resource_providers/{uuid}/inventories               201 403 403 403 403 201 401
PUT /resource_providers/{uuid}/inventories                409 403 403 403 403 409 401
DELETE /resource_providers/{uuid}/inventories             204 403 403 403 403 204 401
GET /resource_providers/{uuid}/inventories/{resource_class}    404 403 403 403 403 404 401
PUT /resource_providers/{uuid}/inventories/{resource_class}    409 403 403 403 403 409 401
DELETE /resource_providers/{uuid}/inventories/{resource_class} 404 403 403 403 403 404 401
GET /resource_providers/{uuid}/usages                     200 403 403 403 403 200 401
GET /resource_providers/{uuid}/aggregates                 200 403 403 403 403 200 401
PUT /resource_providers/{uuid}/aggregates                 409 403 403 403 403 409 401
GET /resource_providers/{uuid}/allocations                200 403 403 403 403 200 401
GET /resource_providers/{uuid}/traits                     200 403 403 403 403 200 401
PUT /resource_providers/{uuid}/traits                     409 403 403 403 403 409 401
DELETE /resource_providers/{uuid}/traits                  204 403 403 403 403 204 401
GET /traits                                               200 403 403 403 403 200 401
GET /traits/{name}                                        204 403 403 403 403 204 401
PUT /traits/{name}                                        204 403 403 403 403 204 401
DELETE /traits/{name}                                     204 403 403 403 403 204 401
POST /allocations                                         400 403 403 403 403 400 401
GET /allocations/{consumer_uuid}                          200 403 403 403 403 200 401
PUT /allocations/{consumer_uuid}                          400 403 403 403 403 400 401
DELETE /allocations/{consumer_uuid}                       404 403 403 403 403 404 401
GET /allocation_candidates                                200 403 403 403 403 200 401
GET /usages                                               200 200 200 403 403 200 401
POST /reshaper                                            400 403 403 403 403 400 401
"""


def rows(table: str) -> list[tuple[str, tuple[int, ...]]]:
    """(route, a status for each identity)."""
    split = [line.rsplit(maxsplit=len(IDENTITIES)) for line in table.strip().splitlines()]
    return [(name, tuple(map(int, statuses))) for name, *statuses in split]


def names_of(route: Route) -> list[str]:
    """A route's rows: one, or one of each action."""
    name = f"{route.method} {route.path}"
    if route.until != HIGHEST:
        name += f" until {route.until[0]}.{route.until[1]}"
    return [f"{name} {action}" for action in route.actions] or [name]


def version_of(name: str, root: str) -> str:
    """The header of a request for this row: the lowest microversion that has it."""
    method, path, *rest = name.split()
    if root == "/placement":
        return "placement 1.6" if "until" in rest else "placement 1.39"
    for route in COMPUTE:
        if (route.method, route.path) == (method, path) and route.since != LOWEST:
            return f"compute {text(route.since)}"
    if rest and rest[0] != "until" and path.startswith("/v2.1/servers/") and not KEYS.has(rest[0], (2, 1)):
        return "compute latest"
    return ""


@pytest.mark.parametrize(
    ("routes", "table"),
    [(COMPUTE, COMPUTE_TABLE), (IMAGE, IMAGE_TABLE), (NETWORK, NETWORK_TABLE), (PLACEMENT, PLACEMENT_TABLE)],
)
def test_every_route_has_a_row(routes: tuple[Route, ...], table: str) -> None:
    written = [name for name, _ in rows(table)]
    assert sorted(written) == sorted(name for route in routes for name in names_of(route))


UNLIMITED = {"security_group": -1, "security_group_rule": -1, "address_group": -1, "subnetpool": -1}


class Site:
    """A cloud with all four APIs and the identities. `ask` answers a status."""

    def __init__(self, folder: Path) -> None:
        self.cloud = with_users(folder, users=IDENTITIES[:-1], user_roles=USER_ROLES)
        self.cloud.conductor.update_quota_set(
            RequestContext(request_id="req-1"), project_id="acme", limits=UNLIMITED, force=True
        )
        self.numbers = itertools.count()
        app = make_app(
            self.cloud.conf,
            self.cloud.readonly,
            self.cloud.conductor,  # type: ignore[arg-type]
            self.cloud.consoles,
            lambda: self.cloud.db,
        )
        self.cloud.app, self.cloud.client = app, falcon.testing.TestClient(app, headers={"Host": "localhost"})
        self.cloud.conductor.add(service(1, "h1"), node("h1", id=1))
        self.flavor = self.make("admin", "/v2.1/flavors", {"flavor": self.body_of_flavor()})["flavor"]["id"]
        image = self.make("alice", "/v2/images", self.body_of_image())["id"]
        assert self.upload("alice", image) == 204
        self.image = image
        # Servers name it: rows of the table make networks of alice's project, and without a name several are ambiguous.
        shared = {"network": {"shared": True}}
        self.network = self.make("admin", "/network/v2.0/networks", shared)["network"]["id"]
        subnet = {"network_id": self.network, "ip_version": 4, "cidr": "192.168.0.0/16"}
        self.make("admin", "/network/v2.0/subnets", {"subnet": subnet})

    def close(self) -> None:
        self.cloud.close()

    def ask(self, user: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        own = {} if user == "anonymous" else login(user)
        return self.cloud.ask(method, path, body, headers=own | headers)

    def status(self, user: str, method: str, path: str, body: Any, **headers: str) -> int:
        """Not by falcon's client: it insists on a Content-Type where there is nothing, and Placement has none there."""
        path, _, query = path.partition("?")
        own = {} if user == "anonymous" else login(user)
        if body is not None:
            headers["Content-Type"] = "application/json" if method != "PATCH" else JSON_PATCH
        text = "" if body is None else json.dumps(body)
        environ = falcon.testing.create_environ(path, query, method=method, headers=own | headers, body=text)
        seen = falcon.testing.StartResponseMock()
        list(self.cloud.app(environ, seen))
        return int(str(seen.status).split()[0])

    def upload(self, user: str, image_id: str, door: str = "file") -> int:
        headers = {"Content-Type": "application/octet-stream"}
        return self.ask(user, "PUT", f"/v2/images/{image_id}/{door}", b"\0" * 512, **headers)[0]

    def make(self, user: str, path: str, body: Any, **headers: str) -> Any:
        status, created = self.ask(user, "POST", path, body, **headers)
        assert status < 300, created
        return created

    def body_of_flavor(self) -> Json:
        return {"name": f"f{next(self.numbers)}", "ram": 64, "vcpus": 1, "disk": 1, "extra_specs": {"k": "v"}}

    def body_of_image(self) -> Json:
        return {"name": "i", "disk_format": "raw", "container_format": "bare", "visibility": "shared"}

    # -- resources in paths, new for each use

    def server_id(self) -> str:
        server = {**body_of_server(self)["server"], "metadata": {"k": "v"}}
        server_id: str = self.make("alice", "/v2.1/servers", {"server": server})["server"]["id"]
        self.cloud.conductor.edit(server_id, host="h1", vm_state="active", task_state=None)
        self.cloud.consoles.texts[server_id] = "login:"
        self.cloud.conductor.add(models.InstanceTag(instance_uuid=server_id, tag="t"))
        return server_id

    def flavor_id(self) -> str:
        flavor_id: str = self.make("admin", "/v2.1/flavors", {"flavor": self.body_of_flavor()})["flavor"]["id"]
        return flavor_id

    def group_id(self) -> str:
        body = {"server_group": {"name": "g", "policies": ["affinity"]}}
        server_group_id: str = self.make("alice", "/v2.1/os-server-groups", body)["server_group"]["id"]
        return server_group_id

    def body_of_keypair(self) -> Json:
        return {"keypair": {"name": f"k{next(self.numbers)}", "public_key": PUBLIC_KEY}}

    def keypair_name(self) -> str:
        keypair_name: str = self.make("alice", "/v2.1/os-keypairs", self.body_of_keypair())["keypair"]["name"]
        return keypair_name

    def aggregate_id(self) -> str:
        body = {"aggregate": {"name": f"a{next(self.numbers)}"}}
        return str(self.make("admin", "/v2.1/os-aggregates", body)["aggregate"]["id"])

    def image_id(self) -> str:
        new_id: str = self.make("alice", "/v2/images", self.body_of_image())["id"]
        return new_id

    def network_id(self) -> str:
        network_id: str = self.make("alice", "/network/v2.0/networks", {"network": {}})["network"]["id"]
        return network_id

    def subnet_id(self) -> str:
        body = {"network_id": self.network_id(), "ip_version": 4, "cidr": self.range()}
        subnet_id: str = self.make("alice", "/network/v2.0/subnets", {"subnet": body})["subnet"]["id"]
        return subnet_id

    def range(self) -> str:
        number = next(self.numbers)
        return f"10.{number >> 8 & 255}.{number & 255}.0/24"

    def port_id(self) -> str:
        body = {"port": {"network_id": self.network_id()}}
        port_id: str = self.make("alice", "/network/v2.0/ports", body)["port"]["id"]
        return port_id

    def security_group_id(self) -> str:
        body = {"security_group": {"name": f"s{next(self.numbers)}"}}
        security_group_id: str = self.make("alice", "/network/v2.0/security-groups", body)["security_group"]["id"]
        return security_group_id

    def address_group_id(self) -> str:
        address_group_id: str = self.make("alice", "/network/v2.0/address-groups", {"address_group": {}})[
            "address_group"
        ]["id"]
        return address_group_id

    def subnetpool_id(self) -> str:
        body = {"subnetpool": {"name": "p", "prefixes": ["10.0.0.0/8"]}}
        subnetpool_id: str = self.make("alice", "/network/v2.0/subnetpools", body)["subnetpool"]["id"]
        return subnetpool_id

    def security_group_rule_id(self) -> str:
        body = {"security_group_id": self.security_group_id(), "direction": "ingress"}
        path = "/network/v2.0/security-group-rules"
        security_group_rule_id: str = self.make("alice", path, {"security_group_rule": body})["security_group_rule"][
            "id"
        ]
        return security_group_rule_id

    def uuid(self) -> str:
        new_uuid = str(uuid.uuid4())
        body = {"name": new_uuid, "uuid": new_uuid}
        self.make("admin", "/placement/resource_providers", body, **{"OpenStack-API-Version": "placement 1.39"})
        return new_uuid

    def named(self, template: str) -> str:
        """A project, a resource class or a trait."""
        if template.startswith("/v2.1/"):
            return "acme"
        name = f"CUSTOM_N{next(self.numbers)}"
        headers = {"OpenStack-API-Version": "placement 1.39"}
        assert self.status("admin", "PUT", "/placement" + template.format(name=name), None, **headers) in (201, 204)
        return name

    def path(self, template: str) -> str:
        """With a resource of alice's project for each variable."""
        fixed = {
            "alias": "provider",
            "extension": "os-hosts",
            "key": "k",
            "tag": "t",
            "hypervisor_id": "1",
            "id_or_action": "disable",
            "resource_class": "VCPU",
            "request_id": "req-none",
            "network": "none",
            "volume_id": str(uuid.uuid4()),
            "agent_id": str(uuid.uuid4()),
            "migration_id": "1",
            "project_id": "acme",
            "before_timestamp": "2026-01-01 00:00:00",
            "id": "1",
            "host_name": "h1",
            "entry": "1",
            "consumer_uuid": str(uuid.uuid4()),
            "member_id": "globex",
        }
        parts = []
        for part in template.split("/"):
            name = part.strip("{}")
            if name == "name":
                parts.append(self.named(template))
            else:
                parts.append(part if name == part else fixed[name] if name in fixed else getattr(self, name)())
        return "/".join(parts)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("table"))
    yield site
    site.close()


def body_of_server(site: Site) -> Json:
    networks = [{"uuid": site.network}]
    return {"server": {"name": "vm", "flavorRef": site.flavor, "imageRef": site.image, "networks": networks}}


def body_of(site: Site, name: str, action: str) -> Any:
    if action == "rebuild":
        return {action: {"imageRef": site.image}}
    make_body = BODIES.get(name) or BODIES.get(name.partition(" until ")[0])
    if make_body is not None:
        return make_body(site)
    return {action: {}} if action else None


LIVE = {"os-migrateLive": {"host": None, "block_migration": False, "disk_over_commit": False}}
GENERATION = {"resource_provider_generation": 7}
BODIES: dict[str, Callable[[Site], Any]] = {
    "POST /v2.1/servers": body_of_server,
    "POST /v2.1/servers/{server_id}/action os-resetState": lambda _: {"os-resetState": {"state": "error"}},
    "PUT /v2.1/servers/{server_id}": lambda _: {"server": {"name": "renamed"}},
    "POST /v2.1/servers/{server_id}/metadata": lambda _: {"metadata": {"k": "w"}},
    "PUT /v2.1/servers/{server_id}/metadata": lambda _: {"metadata": {"k": "w"}},
    "PUT /v2.1/servers/{server_id}/metadata/{key}": lambda _: {"meta": {"k": "w"}},
    "POST /v2.1/servers/{server_id}/action changePassword": lambda _: {"changePassword": {"adminPass": "p"}},
    "POST /v2.1/servers/{server_id}/action createBackup": lambda _: {
        "createBackup": {"name": "shot", "backup_type": "daily", "rotation": 1}
    },
    "POST /v2.1/servers/{server_id}/action createImage": lambda _: {"createImage": {"name": "shot"}},
    "POST /v2.1/servers/{server_id}/action resize": lambda site: {"resize": {"flavorRef": site.flavor}},
    "POST /v2.1/servers/{server_id}/action migrate": lambda _: {"migrate": None},
    "POST /v2.1/servers/{server_id}/action os-migrateLive": lambda _: LIVE,
    "POST /v2.1/servers/{server_id}/action/dry-run resize": lambda site: {"resize": {"flavorRef": site.flavor}},
    "POST /v2.1/servers/{server_id}/action/dry-run migrate": lambda _: {"migrate": None},
    "POST /v2.1/servers/{server_id}/action/dry-run os-migrateLive": lambda _: LIVE,
    "POST /v2.1/servers/{server_id}/migrations/{migration_id}/action": lambda _: {"force_complete": None},
    "POST /v2.1/servers/{server_id}/action reboot": lambda _: {"reboot": {"type": "HARD"}},
    "POST /v2.1/servers/{server_id}/action evacuate": lambda _: {"evacuate": {"onSharedStorage": False}},
    "POST /v2.1/servers/{server_id}/action/dry-run evacuate": lambda _: {"evacuate": {"onSharedStorage": False}},
    "POST /v2.1/servers/dry-run": body_of_server,
    "POST /v2.1/servers/capacity": lambda site: {"server": {"flavorRef": site.flavor}},
    "POST /v2.1/servers/{server_id}/action os-getVNCConsole": lambda _: {"os-getVNCConsole": {"type": "novnc"}},
    "POST /v2.1/servers/{server_id}/action os-getSerialConsole": lambda _: {"os-getSerialConsole": {"type": "serial"}},
    "POST /v2.1/servers/{server_id}/action os-getSPICEConsole": lambda _: {
        "os-getSPICEConsole": {"type": "spice-html5"}
    },
    "POST /v2.1/servers/{server_id}/action os-getRDPConsole": lambda _: {"os-getRDPConsole": {"type": "rdp-html5"}},
    "POST /v2.1/flavors": lambda site: {"flavor": site.body_of_flavor()},
    "POST /v2.1/flavors/{flavor_id}/action addTenantAccess": lambda _: {"addTenantAccess": {"tenant": "acme"}},
    "POST /v2.1/flavors/{flavor_id}/action removeTenantAccess": lambda _: {"removeTenantAccess": {"tenant": "acme"}},
    "POST /v2.1/flavors/{flavor_id}/os-extra_specs": lambda _: {"extra_specs": {"k": "w"}},
    "PUT /v2.1/flavors/{flavor_id}/os-extra_specs/{key}": lambda _: {"k": "w"},
    "POST /v2.1/os-server-groups": lambda _: {"server_group": {"name": "g", "policies": ["affinity"]}},
    "PUT /v2.1/flavors/{flavor_id}": lambda _: {"flavor": {"description": "d"}},
    "PUT /v2.1/servers/{server_id}/tags": lambda _: {"tags": ["t"]},
    "POST /v2.1/servers/{server_id}/remote-consoles": lambda _: {
        "remote_console": {"protocol": "vnc", "type": "novnc"}
    },
    "POST /v2.1/os-keypairs": lambda site: site.body_of_keypair(),
    "PUT /v2.1/os-quota-sets/{name}": lambda _: {"quota_set": {"key_pairs": 500}},
    "PUT /v2.1/os-quota-class-sets/{name}": lambda _: {"quota_class_set": {"key_pairs": 500}},
    "POST /v2.1/os-server-external-events": lambda site: {
        "events": [{"name": "network-changed", "server_uuid": site.server_id()}]
    },
    "POST /v2.1/os-aggregates": lambda site: {"aggregate": {"name": f"b{next(site.numbers)}"}},
    "PUT /v2.1/os-aggregates/{aggregate_id}": lambda site: {"aggregate": {"name": f"c{next(site.numbers)}"}},
    "POST /v2.1/os-aggregates/{aggregate_id}/action add_host": lambda _: {"add_host": {"host": "h1"}},
    "POST /v2.1/os-aggregates/{aggregate_id}/action remove_host": lambda _: {"remove_host": {"host": "h1"}},
    "POST /v2.1/os-aggregates/{aggregate_id}/action set_metadata": lambda _: {"set_metadata": {"metadata": {"x": "y"}}},
    "POST /v2.1/os-aggregates/{aggregate_id}/images": lambda site: {"cache": [{"id": site.image_id()}]},
    "POST /v2.1/os-hypervisors/{hypervisor_id}/action": lambda _: {"audit": None},
    "PUT /v2.1/os-services/{id_or_action}": lambda _: {"host": "h1", "binary": "nova-compute"},
    "POST /v2.1/images/{image_id}/metadata": lambda _: {"metadata": {"k": "w"}},
    "PUT /v2.1/images/{image_id}/metadata": lambda _: {"metadata": {"k": "w"}},
    "PUT /v2.1/images/{image_id}/metadata/{key}": lambda _: {"meta": {"k": "w"}},
    "POST /v2.1/os-security-groups": lambda site: {
        "security_group": {"name": f"t{next(site.numbers)}", "description": ""}
    },
    "PUT /v2.1/os-security-groups/{security_group_id}": lambda site: {
        "security_group": {"name": f"t{next(site.numbers)}", "description": ""}
    },
    "POST /v2.1/os-security-group-rules": lambda site: {
        "security_group_rule": {
            "parent_group_id": site.security_group_id(),
            "ip_protocol": "tcp",
            "from_port": 22,
            "to_port": 22,
        }
    },
    "PUT /v2.1/os-hosts/{host_name}": lambda _: {"status": "enable"},
    "POST /v2/images": lambda site: site.body_of_image(),
    "PATCH /v2/images/{image_id}": lambda _: [{"op": "replace", "path": "/name", "value": "renamed"}],
    "POST /v2/images/{image_id}/import": lambda _: {"method": {"name": "glance-direct"}},
    "POST /v2/images/{image_id}/members": lambda _: {"member": "globex"},
    "PUT /v2/images/{image_id}/members/{member_id}": lambda _: {"status": "accepted"},
    "POST /v2.0/networks": lambda _: {"network": {"name": "n"}},
    "PUT /v2.0/networks/{network_id}": lambda _: {"network": {"name": "m"}},
    "POST /v2.0/subnets": lambda site: {
        "subnet": {"network_id": site.network_id(), "ip_version": 4, "cidr": site.range()}
    },
    "PUT /v2.0/subnets/{subnet_id}": lambda _: {"subnet": {"name": "t"}},
    "POST /v2.0/ports": lambda site: {"port": {"network_id": site.network_id()}},
    "PUT /v2.0/quotas/{project_id}": lambda _: {"quota": {"port": -1}},
    "POST /v2.0/security-groups": lambda site: {"security_group": {"name": f"t{next(site.numbers)}"}},
    "PUT /v2.0/security-groups/{security_group_id}": lambda _: {"security_group": {"description": "t"}},
    "POST /v2.0/address-groups": lambda _: {"address_group": {}},
    "PUT /v2.0/address-groups/{address_group_id}": lambda _: {"address_group": {"name": "t"}},
    "PUT /v2.0/address-groups/{address_group_id}/add_addresses": lambda _: {"addresses": ["10.0.0.0/8"]},
    "PUT /v2.0/address-groups/{address_group_id}/remove_addresses": lambda _: {"addresses": ["10.0.0.0/8"]},
    "POST /v2.0/subnetpools": lambda _: {"subnetpool": {"name": "p", "prefixes": ["10.0.0.0/8"]}},
    "PUT /v2.0/subnetpools/{subnetpool_id}": lambda _: {"subnetpool": {"name": "t"}},
    "PUT /v2.0/subnetpools/{subnetpool_id}/tags": lambda _: {"tags": ["red"]},
    "POST /v2.0/subnetpools/{subnetpool_id}/tags": lambda _: {"tags": ["red"]},
    "POST /v2.0/security-group-rules": lambda site: {
        "security_group_rule": {"security_group_id": site.security_group_id(), "direction": "ingress"}
    },
    "POST /v2.1/servers/{server_id}/action addSecurityGroup": lambda _: {"addSecurityGroup": {"name": "default"}},
    "POST /v2.1/servers/{server_id}/action removeSecurityGroup": lambda _: {"removeSecurityGroup": {"name": "default"}},
    "POST /v2.1/servers/{server_id}/action addFixedIp": lambda _: {"addFixedIp": {"networkId": "none"}},
    "POST /v2.1/servers/{server_id}/action removeFixedIp": lambda _: {"removeFixedIp": {"address": "192.0.2.1"}},
    "POST /v2.1/servers/{server_id}/os-interface": lambda _: {
        "interfaceAttachment": {"net_id": "00000000-0000-4000-8000-000000000000"}
    },
    "PUT /v2.0/networks/{network_id}/tags": lambda _: {"tags": ["red"]},
    "POST /v2.0/networks/{network_id}/tags": lambda _: {"tags": ["red"]},
    "PUT /v2.0/security-group-rules/{security_group_rule_id}/tags": lambda _: {"tags": ["red"]},
    "POST /v2.0/security-group-rules/{security_group_rule_id}/tags": lambda _: {"tags": ["red"]},
    "PUT /v2.0/address-groups/{address_group_id}/tags": lambda _: {"tags": ["red"]},
    "POST /v2.0/address-groups/{address_group_id}/tags": lambda _: {"tags": ["red"]},
    "PUT /v2.0/subnets/{subnet_id}/tags": lambda _: {"tags": ["red"]},
    "POST /v2.0/subnets/{subnet_id}/tags": lambda _: {"tags": ["red"]},
    "PUT /v2.0/ports/{port_id}/tags": lambda _: {"tags": ["red"]},
    "POST /v2.0/ports/{port_id}/tags": lambda _: {"tags": ["red"]},
    "PUT /v2.0/security-groups/{security_group_id}/tags": lambda _: {"tags": ["red"]},
    "POST /v2.0/security-groups/{security_group_id}/tags": lambda _: {"tags": ["red"]},
    "PUT /v2.0/ports/{port_id}": lambda _: {"port": {"name": "q"}},
    "POST /resource_classes": lambda site: {"name": f"CUSTOM_{next(site.numbers)}"},
    "PUT /resource_classes/{name} until 1.6": lambda site: {"name": f"CUSTOM_N{next(site.numbers)}"},
    "POST /resource_providers": lambda site: {"name": f"p{next(site.numbers)}"},
    "PUT /resource_providers/{uuid}": lambda site: {"name": f"q{next(site.numbers)}"},
    "POST /resource_providers/{uuid}/inventories": lambda _: {"resource_class": "VCPU", "total": 1},
    "PUT /resource_providers/{uuid}/inventories": lambda _: {**GENERATION, "inventories": {}},
    "PUT /resource_providers/{uuid}/inventories/{resource_class}": lambda _: {**GENERATION, "total": 1},
    "PUT /resource_providers/{uuid}/aggregates": lambda _: {**GENERATION, "aggregates": []},
    "PUT /resource_providers/{uuid}/traits": lambda _: {**GENERATION, "traits": []},
    "POST /allocations": lambda _: {},
    "PUT /allocations/{consumer_uuid}": lambda _: {},
    "POST /reshaper": lambda _: {"inventories": {}, "allocations": {}},
}
QUERIES = {"GET /allocation_candidates": "?resources=VCPU:1", "GET /usages": "?project_id=acme"}


@pytest.mark.parametrize(
    ("name", "statuses", "root"),
    [
        *((name, statuses, "") for name, statuses in rows(COMPUTE_TABLE + IMAGE_TABLE[1:])),
        *((name, statuses, "/network") for name, statuses in rows(NETWORK_TABLE)),
        *((name, statuses, "/placement") for name, statuses in rows(PLACEMENT_TABLE)),
    ],
)
def test_each_identity_is_answered_as_the_table_says(
    site: Site, name: str, statuses: tuple[int, ...], root: str
) -> None:
    method, template, *rest = name.split()
    version = version_of(name, root)
    path = ""
    answered = {}
    for user, expected in zip(IDENTITIES, statuses, strict=True):
        # A refusal must change nothing, so that the next identity can ask for the same.
        path = path if path and expected in (401, 403) else site.path(template)
        if "/actions/" in template:
            site.upload("alice", path.split("/")[3])
        body = body_of(site, name, rest[0] if rest and rest[0] != "until" else "")
        headers = {"OpenStack-API-Version": version} if version else {}
        if template.startswith("/v2/images/") and template.endswith(("/file", "/stage")) and method == "PUT":
            *_, image_id, door = path.split("/")
            answered[user] = site.upload(user, image_id, door) if user != "anonymous" else 401
            continue
        answered[user] = site.status(user, method, root + path + QUERIES.get(name, ""), body, **headers)
    assert answered == dict(zip(IDENTITIES, statuses, strict=True))


def test_an_owner_cannot_remove_the_lock_of_an_administrator(site: Site) -> None:
    path = f"/v2.1/servers/{site.server_id()}/action"
    calls = (("admin", "lock"), ("alice", "unlock"), ("admin", "unlock"), ("alice", "lock"), ("alice", "unlock"))
    answers = [site.ask(user, "POST", path, {key: None}) for user, key in calls]
    assert [status for status, _ in answers] == [202, 403, 202, 202, 202]
    assert "os-lock-server:unlock:unlock_override" in answers[1][1]["forbidden"]["message"]


def test_members_use_a_private_flavor_only_with_access(site: Site) -> None:
    created = site.make(
        "admin", "/v2.1/flavors", {"flavor": {**site.body_of_flavor(), "os-flavor-access:is_public": False}}
    )
    flavor, path = created["flavor"]["id"], f"/v2.1/flavors/{created['flavor']['id']}"
    body = {"server": {**body_of_server(site)["server"], "flavorRef": flavor}}
    assert (site.ask("alice", "GET", path)[0], site.ask("alice", "POST", "/v2.1/servers", body)[0]) == (404, 400)
    site.make("admin", f"{path}/action", {"addTenantAccess": {"tenant": "acme"}})
    assert (site.ask("alice", "GET", path)[0], site.ask("alice", "POST", "/v2.1/servers", body)[0]) == (200, 202)
    assert flavor in [each["id"] for each in site.ask("alice", "GET", "/v2.1/flavors")[1]["flavors"]]
    assert site.ask("bob", "GET", path)[0] == 404
