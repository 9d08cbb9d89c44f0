"""A success that is said again, late, was stale once the instance had changed; and what is stale is removed by its host."""

import pytest
from sqlalchemy import update

from minova import errors
from minova.db.models import Instance
from tests.functional.conductor.conductor_harness import ConductorHarness


@pytest.mark.parametrize(
    "since",
    [{"vm_state": "stopped"}, {"vm_state": "error"}, {"task_state": "rebooting"}, {"task_state": "deleting"}],
)
def test_a_repetition_after_the_instance_has_changed_is_no_reason_to_remove_it(
    harness: ConductorHarness, since: dict[str, str]
) -> None:
    uuid = harness.active()
    harness.db.run(lambda session: session.execute(update(Instance).values(**since)))
    harness.succeed("a", uuid)
    for host, attempt in (("b", 1), ("a", 2)):
        with pytest.raises(errors.StaleAttempt):
            harness.succeed(host, uuid, attempt)
