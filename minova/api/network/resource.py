"""The routes that each resource of Neutron has."""

import msgspec

from minova.api.http.definition import Handler, Route
from minova.api.network import answers
from minova.api.network.common import FieldsQuery


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
