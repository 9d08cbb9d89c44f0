"""Services derive no right from a request's context: the API has decided, and a context is words of the sender.

What a compute gains by an administrator's context in its messages the rogue compute shows (tests/security/test_rogue_compute.py): its
context is always an administrator's, and it is refused all the same.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import minova
from minova.context import RequestContext

ROOT = Path(minova.__file__).parent
# What people say through the API is decided there; these run where a person sits, or make contexts.
DECIDE = ("api", "cli", "cmd", "simulate")
# Fields of a context that say what a user may do.
RIGHTS = {"is_admin", "roles"}
# Who may call a method, by the user that the broker has validated.
OF_THE_BROKER = {
    "messaging/rpc_access.py": {"method.audience.roles"},
    "contracts/base.py": {"self.audience.roles"},
}
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] not in DECIDE)


def reads_of_rights(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if (isinstance(node, ast.Attribute) and node.attr in RIGHTS) or (
            isinstance(node, ast.Constant) and node.value in RIGHTS
        ):
            yield ast.unparse(node)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_service_reads_rights_from_a_context(path: Path) -> None:
    allowed = OF_THE_BROKER.get(str(path.relative_to(ROOT)), set())
    assert set(reads_of_rights(path.read_text())) <= allowed


def test_a_read_is_found() -> None:
    """Of each kind."""
    source = "if ctx.is_admin or call.ctx.roles: pass\ngetattr(ctx, 'is_admin')"
    assert set(reads_of_rights(source)) == {"ctx.is_admin", "call.ctx.roles", "'is_admin'"}


def test_context_has_one_field_of_rights() -> None:
    """A new one belongs into RIGHTS."""
    fields_without_rights = {"request_id", "user_id", "project_id", "process", "sender", "cloud", "message"}
    assert set(RequestContext.__struct_fields__) - fields_without_rights == RIGHTS & set(
        RequestContext.__struct_fields__
    )
