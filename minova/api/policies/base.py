"""The struct of a policy, and the policies that others refer to. Names and defaults are OpenStack's."""

import msgspec


class PolicyRule(msgspec.Struct, frozen=True, kw_only=True):
    """`check`: an expression of oslo.policy. Requests that match it may do what `description` describes."""

    name: str
    check: str
    description: str


ADMIN = "rule:context_is_admin"
MEMBER = "rule:project_member_or_admin"
READER = "rule:project_reader_or_admin"
MANAGER = "rule:project_manager_or_admin"
EVERY_USER = "@"
# For resources of a user, whatever the project.
OWN_USER = "rule:context_is_admin or user_id:%(user_id)s"
# For reports of other services. Administrators may send them manually.
SERVICE = "role:service or rule:context_is_admin"
# For routes without a policy in OpenStack: every authenticated user may call them.
AUTHENTICATED = ""

RULES: tuple[PolicyRule, ...] = (
    PolicyRule(
        name="context_is_admin",
        check="role:admin",
        description="What is_admin:True means: sees the resources of every project.",
    ),
    PolicyRule(name="admin_api", check="is_admin:True", description="The older name of context_is_admin."),
    PolicyRule(
        name="project_manager_api",
        check="role:manager and project_id:%(project_id)s",
        description="Manages the own project.",
    ),
    PolicyRule(
        name="project_member_api",
        check="role:member and project_id:%(project_id)s",
        description="Changes the resources of the own project.",
    ),
    PolicyRule(
        name="project_reader_api",
        check="role:reader and project_id:%(project_id)s",
        description="Reads the resources of the own project.",
    ),
    PolicyRule(
        name="project_manager_or_admin",
        check="rule:project_manager_api or rule:context_is_admin",
        description="A manager of the project, or an administrator.",
    ),
    PolicyRule(
        name="project_member_or_admin",
        check="rule:project_member_api or rule:context_is_admin",
        description="A member of the project, or an administrator.",
    ),
    PolicyRule(
        name="project_reader_or_admin",
        check="rule:project_reader_api or rule:context_is_admin",
        description="A reader of the project, or an administrator.",
    ),
    PolicyRule(
        name="admin_or_service_api",
        check="role:admin or role:service",
        description="An administrator, or a service of OpenStack: most of Placement.",
    ),
)


def rules(prefix: str, *entries: tuple[str, str, str]) -> tuple[PolicyRule, ...]:
    """Makes rules from (name behind the prefix, check, description)."""
    return tuple(PolicyRule(name=f"{prefix}{name}", check=check, description=text) for name, check, text in entries)
