"""A conductor signs a token for the image of each build that it sends, and for a host that asks for its own instances."""

from typing import Any

import msgspec
import pytest
from sqlalchemy import select, update

from minova import errors
from minova.db.catalogue import image_token_keys
from minova.db.models import ImageTokenKey, Instance
from minova.image_tokens import LIFETIME, PERIOD, TokenRefused, image_of
from minova.objects.catalogue.image import BootFile
from tests.functional.conductor.conductor_harness import CTX, IMAGE, ConductorHarness, new_request
from tests.functional.scheduler.cloud import named


def opened(harness: ConductorHarness, token: str | None) -> str:
    """The image that the API would give for the token now."""
    assert token is not None
    return image_of(token, image_token_keys.read(harness.db))


def token_of(harness: ConductorHarness, uuid: str, host: str = "a", **more: Any) -> str:
    return harness.conductor.image_token(CTX, **{"instance_uuid": uuid, "image_id": IMAGE.id, "host": host, **more})


def periods(harness: ConductorHarness) -> list[int]:
    with harness.db.read() as session:
        return sorted(session.scalars(select(ImageTokenKey.period)))


def test_each_build_is_sent_with_a_token_for_its_image(harness: ConductorHarness) -> None:
    harness.scheduler.order = ["a"]
    harness.create(2)
    assert [opened(harness, build.image_token) for build in harness.hosts["a"].builds] == [IMAGE.id] * 2


def test_build_that_is_sent_again_has_a_fresh_token(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    harness.now += LIFETIME
    with pytest.raises(TokenRefused):
        opened(harness, harness.hosts["a"].builds[0].image_token)
    harness.fail("a", uuid)
    assert opened(harness, harness.hosts["b"].builds[0].image_token) == IMAGE.id


def test_host_gets_a_fresh_token_for_its_build_and_for_its_instance(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    harness.now += 2 * LIFETIME
    assert opened(harness, token_of(harness, uuid)) == IMAGE.id
    harness.build("a", uuid)
    assert opened(harness, token_of(harness, uuid)) == IMAGE.id


def test_host_gets_no_token_for_what_is_not_its_own(harness: ConductorHarness) -> None:
    (building,) = harness.create()
    active = harness.active()
    for uuid in (building, active):
        for wrong in ({"host": "b"}, {"image_id": named("another image")}, {"instance_uuid": named("no instance")}):
            with pytest.raises(errors.StaleAttempt, match="has no instance"):
                token_of(harness, uuid, **wrong)


def test_host_of_a_build_that_failed_or_was_deleted_gets_none(harness: ConductorHarness) -> None:
    failed, deleted = harness.create(2)
    harness.fail("a", failed)
    harness.delete(deleted)
    harness.settle()
    for uuid in (failed, deleted):
        with pytest.raises(errors.StaleAttempt):
            token_of(harness, uuid)


def test_host_that_rescues_a_server_gets_one_for_the_image_that_was_named(harness: ConductorHarness) -> None:
    uuid, rescuer = harness.active(), named("rescuer")
    with pytest.raises(errors.StaleAttempt):
        token_of(harness, uuid, image_id=rescuer)
    arguments = {"rescue_image": {"id": rescuer}}
    harness.conductor.start_action(new_request(), instance_uuid=uuid, action="rescue", arguments=arguments)
    assert opened(harness, token_of(harness, uuid, image_id=rescuer)) == rescuer
    assert opened(harness, token_of(harness, uuid)) == IMAGE.id
    with pytest.raises(errors.StaleAttempt):
        token_of(harness, uuid, image_id=rescuer, host="b")
    report = {"instance_uuid": uuid, "action_id": harness.action_id(uuid), "host": "a"}
    harness.conductor.action_succeeded(CTX, **report, power_state=1)  # type: ignore[arg-type]
    with pytest.raises(errors.StaleAttempt):
        token_of(harness, uuid, image_id=rescuer)


def test_host_gets_one_for_the_kernel_and_ramdisk_of_its_servers_image(harness: ConductorHarness) -> None:
    uuid, (kernel, ramdisk, other) = harness.active(), map(named, ("kernel", "ramdisk", "other"))
    with pytest.raises(errors.StaleAttempt):
        token_of(harness, uuid, image_id=kernel)
    image = msgspec.structs.replace(IMAGE, kernel=BootFile(id=kernel), ramdisk=BootFile(id=ramdisk))
    with harness.db.write() as session:
        session.execute(update(Instance).where(Instance.uuid == uuid).values(image=msgspec.to_builtins(image)))
    assert [opened(harness, token_of(harness, uuid, image_id=each)) for each in (kernel, ramdisk)] == [kernel, ramdisk]
    for wrong in ({"image_id": other}, {"image_id": kernel, "host": "b"}):
        with pytest.raises(errors.StaleAttempt):
            token_of(harness, uuid, **wrong)
    rescuer = {"rescue_image": {"id": named("rescuer"), "kernel": {"id": other}}}
    harness.conductor.start_action(new_request(), instance_uuid=uuid, action="rescue", arguments=rescuer)
    assert opened(harness, token_of(harness, uuid, image_id=other)) == other


def test_keys_change_each_period_and_old_ones_go(harness: ConductorHarness) -> None:
    first = image_token_keys.read(harness.db)
    assert periods(harness) == [first.period]
    harness.tick(harness.conductor, PERIOD)
    assert periods(harness) == [first.period, first.period + 1]
    second = image_token_keys.read(harness.db)
    assert len(set(second.secrets.values())) == 2
    assert all(len(secret) == 64 for secret in second.secrets.values())
    harness.tick(harness.conductor, PERIOD)
    assert periods(harness) == [first.period + 1, first.period + 2]


def test_conductors_share_the_keys_and_a_restart_keeps_them(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    before = periods(harness)
    other = harness.start("two")
    token = other.image_token(CTX, instance_uuid=uuid, image_id=IMAGE.id, host="a")
    assert periods(harness) == before
    assert opened(harness, token) == opened(harness, harness.hosts["a"].builds[0].image_token) == IMAGE.id


def test_clock_of_the_database_that_jumps_costs_one_question(harness: ConductorHarness) -> None:
    """Tokens that are under way are refused; a host asks for a fresh one, which is valid at once."""
    (uuid,) = harness.create()
    for jump in (10 * PERIOD, -20 * PERIOD):
        harness.step += jump
        with pytest.raises(TokenRefused):
            opened(harness, harness.hosts["a"].builds[0].image_token)
        assert opened(harness, token_of(harness, uuid)) == IMAGE.id


def test_without_a_key_builds_go_out_and_hosts_ask(harness: ConductorHarness) -> None:
    harness.conductor.collaborators.image_tokens._reading = None
    (uuid,) = harness.create()
    assert harness.hosts["a"].builds[0].image_token is None
    assert opened(harness, token_of(harness, uuid)) == IMAGE.id
