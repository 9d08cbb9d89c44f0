"""The ninth rebuild in a row that failed removed the oldest former secret, which may be the only one that opens the disks."""

import pytest

from minova import errors
from minova.objects.guests.guest_secrets import MAX_FORMER, SecretKind
from tests.functional.conductor.actions.engine.test_requests import report
from tests.functional.conductor.actions.kinds import test_rebuild
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.tokens.test_guest_secrets import BOTH, asked, rows


def test_a_rebuild_without_place_for_the_former_secrets_is_refused(with_key: ConductorHarness) -> None:
    uuid = with_key.active()
    first = asked(with_key, uuid).passphrases
    for _ in range(MAX_FORMER):
        again = report(with_key, uuid, test_rebuild.ask(with_key, uuid))
        with_key.conductor.begin_action(CTX, **again)
        with_key.conductor.begin_action(CTX, **again, again=True)
        asked(with_key, uuid)
        with_key.conductor.action_failed(CTX, **again, reason="no space left")
    kept, shown, state = rows(with_key), test_rebuild.shown(with_key, uuid), with_key.state(uuid)
    with pytest.raises(errors.Conflict, match=r"8 rebuilds .* have failed.*Hard reboot the server, save its data"):
        test_rebuild.ask(with_key, uuid)
    assert (rows(with_key), test_rebuild.shown(with_key, uuid), with_key.state(uuid)) == (kept, shown, state)
    answer = with_key.conductor.guest_secrets(CTX, host="a", instance_uuid=uuid, kinds=BOTH, make=False)
    assert {kind: answer.former[kind][-1] for kind in SecretKind} == first
