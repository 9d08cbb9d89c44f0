"""Tokens of consoles."""

from uuid import uuid4

import pytest
from sqlalchemy import select

from minova import errors
from minova.conductor.hosts import console_addresses
from minova.db import models
from minova.db.hosts import identity as hosts
from minova.db.hosts import services
from minova.objects.guests.console import ConsoleGrant, ConsoleType
from minova.objects.hosts.service import SERVICE_VERSION, HostIdentity, Service
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, request
from tests.functional.scheduler.cloud import named

NOT_VALID = "The token of the console is not valid"


def register(harness: ConductorHarness, host: str, *consoles: str) -> None:
    """As a new process of the compute, which names these addresses of consoles."""
    with harness.db.read() as session:
        row = services.find(session, host, "minova-compute")
        nodes = hosts.nodes_of(session, host)
    assert row is not None
    compute_id = row.compute_id or next(iter(nodes.values()), named(f"machine {host}"))
    identity = HostIdentity(process=str(uuid4()), lock="lock", compute_id=compute_id, console_addresses=consoles)
    harness.conductor.service_stopped(CTX, host=host, binary="minova-compute", process=row.process or "")
    service = Service(
        uuid=row.uuid, host=host, binary="minova-compute", topic="compute", version=SERVICE_VERSION, identity=identity
    )
    harness.conductor.register_service(CTX, service=service)


def addresses(harness: ConductorHarness, instance_uuid: str) -> tuple[str, ...]:
    token = harness.conductor.create_console_token(CTX, instance_uuid=instance_uuid, console_type="serial")
    return harness.conductor.use_console_token(CTX, token=token).addresses


def assign(harness: ConductorHarness, host: str, *wanted: str) -> list[str]:
    return harness.db.run(lambda session: console_addresses.assign(session, host, wanted))


class ConsoleCases:
    def test_token_opens_its_console_once(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        token = harness.conductor.create_console_token(CTX, instance_uuid=uuid, console_type="serial")
        other = harness.conductor.create_console_token(CTX, instance_uuid=uuid, console_type="novnc")
        assert token != other
        grant = ConsoleGrant(instance_uuid=uuid, console_type=ConsoleType.SERIAL, host="a")
        assert harness.conductor.use_console_token(CTX, token=token) == grant
        with pytest.raises(errors.Forbidden, match=NOT_VALID):
            harness.conductor.use_console_token(CTX, token=token)
        assert harness.conductor.use_console_token(CTX, token=other).console_type is ConsoleType.NOVNC

    def test_grant_has_the_addresses_that_the_host_named_first(
        self, harness: ConductorHarness, caplog: pytest.LogCaptureFixture
    ) -> None:
        uuid = harness.active()
        assert addresses(harness, uuid) == ()
        register(harness, "a", "::ffff:192.0.2.1", "2001:DB8::1", "127.0.0.1", "0.0.0.0", "db.example.com")
        assert addresses(harness, uuid) == ("192.0.2.1", "2001:db8::1"), "addresses alone, each in one spelling"
        assert not caplog.records
        register(harness, "a", "192.0.2.3")
        assert addresses(harness, uuid) == ("192.0.2.1", "2001:db8::1"), "a host that was taken over leads nowhere else"
        assert "minova-manage host console-addresses a 192.0.2.3" in caplog.text
        assert assign(harness, "a", "192.0.2.3") == ["192.0.2.3"]
        assert addresses(harness, uuid) == ("192.0.2.3",)

    def test_host_without_consoles_gets_no_address_later(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        register(harness, "a")
        register(harness, "a", "192.0.2.1")
        assert addresses(harness, uuid) == ()

    def test_address_of_another_host_is_not_recorded(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        register(harness, "b", "192.0.2.1")
        register(harness, "a", "::ffff:192.0.2.1")
        assert addresses(harness, uuid) == ()
        with pytest.raises(errors.Conflict, match="recorded for host b"):
            assign(harness, "a", "192.0.2.1")
        with pytest.raises(errors.NotFound, match="nowhere"):
            assign(harness, "nowhere", "192.0.2.2")
        for bad in ("hv1.example.com", "0.0.0.0"):
            with pytest.raises(errors.BadRequest, match="not the IP address"):
                assign(harness, "a", bad)
        with pytest.raises(errors.BadRequest, match="4 addresses at most"):
            assign(harness, "a", *(f"192.0.2.{number}" for number in range(10, 15)))

    def test_token_itself_is_not_stored(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        token = harness.conductor.create_console_token(CTX, instance_uuid=uuid, console_type="novnc")
        with harness.db.read() as session:
            (row,) = session.execute(select(*models.ConsoleToken.__table__.columns)).all()
        assert token not in map(str, row)

    def test_token_expires(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        late, soon = (
            harness.conductor.create_console_token(CTX, instance_uuid=uuid, console_type="novnc") for _ in range(2)
        )
        harness.now += 599
        assert harness.conductor.use_console_token(CTX, token=soon).instance_uuid == uuid
        harness.now += 2
        with pytest.raises(errors.Forbidden, match=NOT_VALID):
            harness.conductor.use_console_token(CTX, token=late)
        with harness.db.read() as session:
            assert session.scalars(select(models.ConsoleToken.token_hash)).all() == []

    def test_expired_tokens_are_removed_with_the_next_one(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        for _ in range(2):
            harness.conductor.create_console_token(CTX, instance_uuid=uuid, console_type="novnc")
            harness.now += 601
        with harness.db.read() as session:
            assert len(session.scalars(select(models.ConsoleToken.token_hash)).all()) == 1

    def test_token_of_a_deleted_server_opens_nothing(self, harness: ConductorHarness) -> None:
        uuid = harness.active()
        token = harness.conductor.create_console_token(CTX, instance_uuid=uuid, console_type="novnc")
        harness.delete(uuid)
        harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
        with pytest.raises(errors.Forbidden, match=NOT_VALID):
            harness.conductor.use_console_token(CTX, token=token)

    @pytest.mark.parametrize("token", ["", "guess", "x" * 5000, "\u2603"])
    def test_unknown_token_opens_nothing(self, harness: ConductorHarness, token: str) -> None:
        with pytest.raises(errors.Forbidden, match=NOT_VALID):
            harness.conductor.use_console_token(CTX, token=token)

    def test_server_without_host_has_no_console(self, harness: ConductorHarness) -> None:
        (uuid,) = harness.conductor.create_servers(CTX, request=request(1)).instance_uuids
        with pytest.raises(errors.Conflict, match="is not ready"):
            harness.conductor.create_console_token(CTX, instance_uuid=uuid, console_type="novnc")
        with pytest.raises(errors.NotFound):
            harness.conductor.create_console_token(CTX, instance_uuid=named("none"), console_type="novnc")
        with pytest.raises(errors.BadRequest, match="Invalid console type spice"):
            harness.conductor.create_console_token(CTX, instance_uuid=uuid, console_type="spice")
