"""What a claim gives back if its work fails."""

import pytest

from minova.compute.tracker.claims import Claim, MoveClaim, NopClaim
from minova.context import RequestContext
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import Migration, MigrationType
from tests.fakes.computes import CTX

FLAVOR = Flavor(flavorid="f", name="f", vcpus=1, memory_mb=100, root_gb=1)
INSTANCE = Instance(uuid="i", display_name="vm", flavor=FLAVOR, project_id="p")
MIGRATION = Migration(
    uuid="m",
    instance_uuid="i",
    migration_type=MigrationType.RESIZE,
    status="migrating",
    source_compute="a",
    source_node="a",
    old_flavor=FLAVOR,
    new_flavor=FLAVOR,
)


class Holder:
    """Keeps what is given back."""

    def __init__(self) -> None:
        self.given_back: list[str] = []

    def release(self, ctx: RequestContext, instance_uuid: str) -> None:
        self.given_back.append(instance_uuid)

    def note_move(self, ctx: RequestContext, instance: Instance, migration: Migration) -> None:
        self.given_back.append(f"{instance.uuid} {migration.uuid} {migration.status}")


@pytest.mark.parametrize(("kind", "given_back"), [("claim", ["i"]), ("move", ["i m error"]), ("nothing", [])])
def test_an_error_gives_back_what_was_claimed(kind: str, given_back: list[str]) -> None:
    holder = Holder()
    claims = {
        "claim": Claim(holder, CTX, INSTANCE),
        "move": MoveClaim(holder, CTX, INSTANCE, MIGRATION),
        "nothing": NopClaim(holder, CTX, INSTANCE),
    }
    with claims[kind]:
        pass
    assert holder.given_back == []
    with pytest.raises(ZeroDivisionError), claims[kind]:
        _ = 1 // 0
    assert holder.given_back == given_back
