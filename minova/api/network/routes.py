"""The route table of the Network API."""

import msgspec

from minova.api.http.definition import Handler, Route
from minova.api.network import (
    answers,
    networks,
    ports,
    quotas,
    security_group_rules,
    security_groups,
    subnets,
    versions,
)
from minova.api.network.common import FieldsQuery, ListQuery

_QUOTA = "/v2.0/quotas/{project_id}"


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """The routes of a resource, as Neutron has them: list, create, show, update and delete.

    `name`: the singular, in bodies and policies.
    `update`, `changes`: None if the resource cannot be changed.
    """

    name: str
    answer: type[answers.Standard]
    index: Handler
    query: type[msgspec.Struct]
    create: Handler
    body: type[msgspec.Struct]
    show: Handler
    update: Handler | None = None
    changes: type[msgspec.Struct] | None = None
    delete: Handler

    def routes(self) -> tuple[Route, ...]:
        plural = f"{self.name}s"
        path = f"/v2.0/{plural.replace('_', '-')}"
        single, answer = f"{path}/{{{self.name}_id}}", {self.name: self.answer}
        read = f"get_{self.name}"
        routes = [
            Route(
                method="GET",
                path=path,
                rule=read,
                handler=self.index,
                answer=answers.page(plural, self.answer),
                query=self.query,
            ),
            Route(
                method="POST",
                path=path,
                rule=f"create_{self.name}",
                handler=self.create,
                answer=answer,
                body=self.body,
                status=201,
            ),
            Route(method="GET", path=single, rule=read, handler=self.show, answer=answer, query=FieldsQuery),
            Route(method="DELETE", path=single, rule=f"delete_{self.name}", handler=self.delete, status=204),
        ]
        if self.update is not None:
            update = Route(
                method="PUT",
                path=single,
                rule=f"update_{self.name}",
                handler=self.update,
                answer=answer,
                body=self.changes,
            )
            routes.insert(3, update)
        return tuple(routes)


_RESOURCES = (
    Resource(
        name="network",
        answer=answers.NetworkAnswer,
        index=networks.list_networks,
        query=networks.NetworksQuery,
        create=networks.create,
        body=networks.CreateNetwork,
        show=networks.show,
        update=networks.update,
        changes=networks.UpdateNetwork,
        delete=networks.delete,
    ),
    Resource(
        name="subnet",
        answer=answers.SubnetAnswer,
        index=subnets.list_subnets,
        query=subnets.SubnetsQuery,
        create=subnets.create,
        body=subnets.CreateSubnet,
        show=subnets.show,
        update=subnets.update,
        changes=subnets.UpdateSubnet,
        delete=subnets.delete,
    ),
    Resource(
        name="port",
        answer=answers.PortAnswer,
        index=ports.list_ports,
        query=ports.PortsQuery,
        create=ports.create,
        body=ports.CreatePort,
        show=ports.show,
        update=ports.update,
        changes=ports.UpdatePort,
        delete=ports.delete,
    ),
    Resource(
        name="security_group",
        answer=answers.SecurityGroupAnswer,
        index=security_groups.list_groups,
        query=ListQuery,
        create=security_groups.create,
        body=security_groups.CreateSecurityGroup,
        show=security_groups.show,
        update=security_groups.update,
        changes=security_groups.UpdateSecurityGroup,
        delete=security_groups.delete,
    ),
    Resource(
        name="security_group_rule",
        answer=answers.SecurityGroupRuleAnswer,
        index=security_group_rules.list_rules,
        query=security_group_rules.RulesQuery,
        create=security_group_rules.create,
        body=security_group_rules.CreateRule,
        show=security_group_rules.show,
        delete=security_group_rules.delete,
    ),
)

ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/", handler=versions.versions),
    Route(method="GET", path="/v2.0", handler=versions.resources),
    Route(
        method="GET",
        path="/v2.0/extensions",
        rule="get_extension",
        handler=versions.list_extensions,
        answer={"extensions": list[answers.ExtensionAnswer]},
    ),
    Route(
        method="GET",
        path="/v2.0/extensions/{alias}",
        rule="get_extension",
        handler=versions.show_extension,
        answer={"extension": answers.ExtensionAnswer},
    ),
    *(route for resource in _RESOURCES for route in resource.routes()),
    Route(
        method="GET",
        path="/v2.0/quotas",
        rule="get_quota",
        handler=quotas.list_quotas,
        answer={"quotas": list[answers.ProjectLimitsAnswer]},
    ),
    Route(method="GET", path=_QUOTA, rule="get_quota", handler=quotas.show, answer={"quota": answers.LimitsAnswer}),
    Route(
        method="GET",
        path=f"{_QUOTA}/default",
        rule="get_quota",
        handler=quotas.show_default,
        answer={"quota": answers.LimitsAnswer},
    ),
    Route(
        method="GET",
        path=f"{_QUOTA}/details.json",
        rule="get_quota",
        handler=quotas.details,
        answer={"quota": dict[str, answers.UsageAnswer]},
    ),
    Route(
        method="PUT",
        path=_QUOTA,
        rule="update_quota",
        handler=quotas.update,
        answer={"quota": answers.LimitsAnswer},
        body=quotas.UpdateQuota,
    ),
    Route(method="DELETE", path=_QUOTA, rule="delete_quota", handler=quotas.delete, status=204),
)
