"""The route table of the Network API."""

from minova.api.http.definition import Route
from minova.api.network import networks, ports, quotas, security_group_rules, security_groups, subnets, versions
from minova.api.network.common import FieldsQuery, ListQuery

_NETWORK = "/v2.0/networks/{network_id}"
_SUBNET = "/v2.0/subnets/{subnet_id}"
_PORT = "/v2.0/ports/{port_id}"
_GROUP = "/v2.0/security-groups/{security_group_id}"
_QUOTA = "/v2.0/quotas/{project_id}"
_RULE = "/v2.0/security-group-rules/{security_group_rule_id}"

ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/", handler=versions.versions),
    Route(method="GET", path="/v2.0", handler=versions.resources),
    Route(method="GET", path="/v2.0/extensions", rule="get_extension", handler=versions.list_extensions),
    Route(method="GET", path="/v2.0/extensions/{alias}", rule="get_extension", handler=versions.show_extension),
    Route(
        method="GET",
        path="/v2.0/networks",
        rule="get_network",
        handler=networks.list_networks,
        query=networks.NetworksQuery,
    ),
    Route(
        method="POST",
        path="/v2.0/networks",
        rule="create_network",
        handler=networks.create,
        body=networks.CreateNetwork,
        status=201,
    ),
    Route(method="GET", path=_NETWORK, rule="get_network", handler=networks.show, query=FieldsQuery),
    Route(method="PUT", path=_NETWORK, rule="update_network", handler=networks.update, body=networks.UpdateNetwork),
    Route(method="DELETE", path=_NETWORK, rule="delete_network", handler=networks.delete, status=204),
    Route(
        method="GET", path="/v2.0/subnets", rule="get_subnet", handler=subnets.list_subnets, query=subnets.SubnetsQuery
    ),
    Route(
        method="POST",
        path="/v2.0/subnets",
        rule="create_subnet",
        handler=subnets.create,
        body=subnets.CreateSubnet,
        status=201,
    ),
    Route(method="GET", path=_SUBNET, rule="get_subnet", handler=subnets.show, query=FieldsQuery),
    Route(method="PUT", path=_SUBNET, rule="update_subnet", handler=subnets.update, body=subnets.UpdateSubnet),
    Route(method="DELETE", path=_SUBNET, rule="delete_subnet", handler=subnets.delete, status=204),
    Route(method="GET", path="/v2.0/ports", rule="get_port", handler=ports.list_ports, query=ports.PortsQuery),
    Route(
        method="POST", path="/v2.0/ports", rule="create_port", handler=ports.create, body=ports.CreatePort, status=201
    ),
    Route(method="GET", path=_PORT, rule="get_port", handler=ports.show, query=FieldsQuery),
    Route(method="PUT", path=_PORT, rule="update_port", handler=ports.update, body=ports.UpdatePort),
    Route(method="DELETE", path=_PORT, rule="delete_port", handler=ports.delete, status=204),
    Route(
        method="GET",
        path="/v2.0/security-groups",
        rule="get_security_group",
        handler=security_groups.list_groups,
        query=ListQuery,
    ),
    Route(
        method="POST",
        path="/v2.0/security-groups",
        rule="create_security_group",
        handler=security_groups.create,
        body=security_groups.CreateSecurityGroup,
        status=201,
    ),
    Route(method="GET", path=_GROUP, rule="get_security_group", handler=security_groups.show, query=FieldsQuery),
    Route(
        method="PUT",
        path=_GROUP,
        rule="update_security_group",
        handler=security_groups.update,
        body=security_groups.UpdateSecurityGroup,
    ),
    Route(method="DELETE", path=_GROUP, rule="delete_security_group", handler=security_groups.delete, status=204),
    Route(
        method="GET",
        path="/v2.0/security-group-rules",
        rule="get_security_group_rule",
        handler=security_group_rules.list_rules,
        query=security_group_rules.RulesQuery,
    ),
    Route(
        method="POST",
        path="/v2.0/security-group-rules",
        rule="create_security_group_rule",
        handler=security_group_rules.create,
        body=security_group_rules.CreateRule,
        status=201,
    ),
    Route(
        method="GET", path=_RULE, rule="get_security_group_rule", handler=security_group_rules.show, query=FieldsQuery
    ),
    Route(
        method="DELETE", path=_RULE, rule="delete_security_group_rule", handler=security_group_rules.delete, status=204
    ),
    Route(method="GET", path="/v2.0/quotas", rule="get_quota", handler=quotas.list_quotas),
    Route(method="GET", path=_QUOTA, rule="get_quota", handler=quotas.show),
    Route(method="GET", path=f"{_QUOTA}/default", rule="get_quota", handler=quotas.show_default),
    Route(method="GET", path=f"{_QUOTA}/details.json", rule="get_quota", handler=quotas.details),
    Route(method="PUT", path=_QUOTA, rule="update_quota", handler=quotas.update, body=quotas.UpdateQuota),
    Route(method="DELETE", path=_QUOTA, rule="delete_quota", handler=quotas.delete, status=204),
)
