"""The project and the roles of a user, from Keystone or from the options."""

from collections.abc import Iterable, Sequence

import msgspec

from minova import errors

# As in Keystone: a role implies the next one.
IMPLIED = {"admin": "manager", "manager": "member", "member": "reader"}


class Scope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Further attributes of a Keystone token, with their names in oslo.policy. `service_*`: the service that passes on
    a user's request.
    """

    user_domain_id: str = ""
    project_domain_id: str = ""
    domain_id: str = ""
    system_scope: str = ""
    service_user_id: str = ""
    service_project_id: str = ""
    service_roles: tuple[str, ...] = ()

    @property
    def is_of_project(self) -> bool:
        """Returns False for a token of a domain or of the whole system. A token without any scope counts as a
        project's, as in oslo.policy: it has no roles.
        """
        return not (self.domain_id or self.system_scope)


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """`project_id`: None if the path of the request may name one; empty if there is none.
    `roles`: those in the project, with the roles that they imply.
    """

    user_id: str
    project_id: str | None
    roles: tuple[str, ...]
    scope: Scope = Scope()


class Users:
    """`admins` have the role admin. `assignments`: USER:PROJECT:ROLE. A user without an assignment is a member of the
    project with the user's name.

    Raises InvalidConfiguration if an assignment has another form, or a user is in two projects.
    """

    def __init__(self, admins: Iterable[str], assignments: Sequence[str]) -> None:
        self._projects: dict[str, str] = {}
        self._roles: dict[str, list[str]] = {}
        for assignment in assignments:
            self._assign(assignment)
        for user in admins:
            self._roles.setdefault(user, []).append("admin")

    def identity(self, user: str) -> Identity:
        roles = with_implied(self._roles.get(user, ["member"]))
        return Identity(user_id=user, project_id=self._projects.get(user, user), roles=roles)

    def _assign(self, assignment: str) -> None:
        user, project, role = (part.strip() for part in f"{assignment}::".split(":", 3)[:3])
        if assignment.count(":") != 2 or not (user and project and role):
            raise errors.InvalidConfiguration(f"[api] user_roles: '{assignment}' is not USER:PROJECT:ROLE.")
        if self._projects.setdefault(user, project) != project:
            raise errors.InvalidConfiguration(
                f"[api] user_roles: {user} is in the projects {self._projects[user]} and {project}; a user is in one."
            )
        self._roles.setdefault(user, []).append(role.lower())


def with_implied(roles: Iterable[str]) -> tuple[str, ...]:
    result: dict[str, None] = {}
    for role in roles:
        name: str | None = role
        while name is not None:
            result[name] = None
            name = IMPLIED.get(name)
    return tuple(result)
