"""What holds of hard policies of server groups on every engine: run on SQLite here, on real servers in the integration tests."""

from typing import Any

import pytest
from sqlalchemy import delete, insert, select

from minova import errors
from minova.db import models
from minova.db.engine import Database
from minova.db.servers import migrations
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.migration import Migration, MigrationType
from minova.placement.allocations.transfers import transfer
from minova.placement.providers import of_node
from tests.functional.placement.cases import claim, claim_of, held, holding_on, hosts, release
from tests.functional.scheduler.cloud import SEEN, named

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=512, root_gb=1)


def add_group(db: Database, name: str, policy: str, *members: str, **rules: int) -> None:
    with db.write() as session:
        values = {"project_id": "p", "user_id": "u", "policy": policy, "rules": rules, "created_at": SEEN}
        inserted: Any = session.connection().execute(
            insert(models.InstanceGroup).values(uuid=named(name), name=name, **values)
        )
        rows = [{"instance_uuid": named(member), "group_id": inserted.inserted_primary_key[0]} for member in members]
        session.connection().execute(insert(models.InstanceGroupMember), rows)


def member_hosts(db: Database, *members: str) -> list[list[str]]:
    """The hosts of each."""
    return [sorted({host for host, _ in held(db, member)}) for member in members]


def begin_move(db: Database, name: str, source: str) -> None:
    """Give what the instance holds to a migration."""
    consumer = f"move of {name}"
    migration = Migration(
        uuid=named(consumer),
        instance_uuid=named(name),
        migration_type=MigrationType.RESIZE,
        source_compute=source,
        source_node=source,
        old_flavor=FLAVOR,
        new_flavor=FLAVOR,
    )

    def work(session: Any) -> None:
        migrations.add(session, migration, SEEN, db.now())
        transfer(session, named(name), named(consumer), db.now())

    db.run(work)


class GroupCases:
    @pytest.mark.parametrize(("rules", "most"), [({}, 1), ({"max_server_per_host": 2}, 2)])
    def test_anti_affinity_gives_a_host_so_many_members_and_no_more(
        self, db: Database, rules: dict[str, int], most: int
    ) -> None:
        hosts(db, "a", "b")
        members = [f"m{number}" for number in range(most + 1)]
        add_group(db, "g", "anti-affinity", *members, **rules)
        for member in members[:-1]:
            assert claim(db, claim_of(member, "a")) == {}
        assert claim(db, claim_of(members[-1], "a")) == {
            named(
                members[-1]
            ): f"a: {most} of server group g ({named('g')}) on the host, and anti-affinity allows {most}"
        }
        assert held(db, members[-1]) == {}
        assert claim(db, claim_of(members[-1], "b")) == {}

    def test_affinity_gives_all_members_one_host(self, db: Database) -> None:
        hosts(db, "a", "b")
        add_group(db, "g", "affinity", "one", "two")
        assert claim(db, claim_of("one", "a")) == {}
        assert claim(db, claim_of("two", "b")) == {
            named("two"): f"b: server group g ({named('g')}) is on a, and affinity allows no other host"
        }
        assert claim(db, claim_of("two", "a")) == {}

    @pytest.mark.parametrize("policy", ["anti-affinity", "affinity"])
    def test_members_of_one_batch_count_with_each_other(self, db: Database, policy: str) -> None:
        hosts(db, "a", "b")
        add_group(db, "g", policy, "one", "two", "three")
        refused = claim(db, claim_of("one", "a"), claim_of("two", "a"), claim_of("three", "b"))
        assert set(refused) == {named("two" if policy == "anti-affinity" else "three")}

    @pytest.mark.parametrize("policy", ["soft-affinity", "soft-anti-affinity"])
    def test_a_soft_policy_refuses_no_host(self, db: Database, policy: str) -> None:
        hosts(db, "a", "b")
        add_group(db, "g", policy, "one", "two", "three")
        assert claim(db, claim_of("one", "a"), claim_of("two", "a"), claim_of("three", "b")) == {}

    def test_groups_and_those_in_none_do_not_see_each_other(self, db: Database) -> None:
        hosts(db, "a")
        add_group(db, "g", "anti-affinity", "one")
        add_group(db, "h", "anti-affinity", "two")
        assert claim(db, claim_of("one", "a"), claim_of("two", "a"), claim_of("three", "a")) == {}

    def test_every_reason_is_told_at_once(self, db: Database) -> None:
        hosts(db, "a")
        add_group(db, "g", "anti-affinity", "one", "two")
        claim(db, claim_of("one", "a"))
        (reason,) = claim(db, claim_of("two", "a", VCPU=9)).values()
        assert "free VCPU 3 < requested 9" in reason
        assert "1 of server group g" in reason

    def test_a_member_that_moves_counts_on_both_hosts_until_its_move_is_over(self, db: Database) -> None:
        """It may still go back. While it waits for its confirmation, too."""
        hosts(db, "a", "b")
        add_group(db, "g", "anti-affinity", "one", "two")
        claim(db, claim_of("one", "a"))
        begin_move(db, "one", "a")
        assert claim(db, claim_of("one", "b", claim_number=2)) == {}
        assert member_hosts(db, "one", "move of one") == [["b"], ["a"]]
        for host in ("a", "b"):
            (reason,) = claim(db, claim_of("two", host)).values()
            assert "1 of server group g" in reason
        release(db, "move of one")
        assert claim(db, claim_of("two", "a")) == {}

    def test_a_member_that_moves_may_go_back(self, db: Database) -> None:
        hosts(db, "a", "b")
        add_group(db, "g", "anti-affinity", "one", "two")
        claim(db, claim_of("one", "a"))
        begin_move(db, "one", "a")
        assert claim(db, claim_of("one", "a", claim_number=2)) == {}

    def test_a_deleted_group_does_not_hinder_a_move(self, db: Database) -> None:
        hosts(db, "a", "b")
        add_group(db, "g", "affinity", "one", "two")
        claim(db, claim_of("one", "a"), claim_of("two", "a"))
        begin_move(db, "one", "a")
        assert claim(db, claim_of("one", "b", claim_number=2)) != {}
        with db.write() as session:
            session.execute(delete(models.InstanceGroupMember))
            session.execute(delete(models.InstanceGroup))
        assert claim(db, claim_of("one", "b", claim_number=2)) == {}

    @pytest.mark.parametrize("policy", ["anti-affinity", "affinity"])
    def test_a_release_gives_the_place_back(self, db: Database, policy: str) -> None:
        hosts(db, "a", "b")
        add_group(db, "g", policy, "one", "two")
        claim(db, claim_of("one", "a"))
        release(db, "one")
        assert claim(db, claim_of("two", "a" if policy == "anti-affinity" else "b")) == {}

    def test_a_move_gives_the_place_back(self, db: Database) -> None:
        hosts(db, "a", "b")
        add_group(db, "g", "anti-affinity", "one", "two")
        claim(db, claim_of("one", "a"))
        assert claim(db, claim_of("one", "b", 2), claim_of("two", "a")) == {}
        assert member_hosts(db, "one", "two") == [["b"], ["a"]]

    def test_the_only_member_of_an_affinity_group_may_move(self, db: Database) -> None:
        hosts(db, "a", "b")
        add_group(db, "g", "affinity", "one")
        claim(db, claim_of("one", "a"))
        assert claim(db, claim_of("one", "b", 2)) == {}

    def test_a_late_release_frees_neither_its_own_nor_another_members_place(self, db: Database) -> None:
        hosts(db, "a")
        add_group(db, "g", "anti-affinity", "one", "two")
        claim(db, claim_of("one", "a"))
        release(db, "one")
        claim(db, claim_of("two", "a"))
        release(db, "one")
        assert member_hosts(db, "one", "two") == [[], ["a"]]
        assert claim(db, claim_of("one", "a", 9))
        with pytest.raises(errors.StaleClaim):
            claim(db, claim_of("one", "a"))

    def test_a_refused_member_keeps_the_place_that_it_has(self, db: Database) -> None:
        hosts(db, "a", "b")
        add_group(db, "g", "anti-affinity", "one", "two")
        claim(db, claim_of("one", "a"), claim_of("two", "b"))
        assert set(claim(db, claim_of("one", "b", 2))) == {named("one")}
        assert held(db, "one") == holding_on("a")

    def test_what_a_member_has_it_keeps_although_the_policy_is_broken(self, db: Database) -> None:
        hosts(db, "a")
        add_group(db, "g", "soft-anti-affinity", "one", "two")
        claim(db, claim_of("one", "a"), claim_of("two", "a"))
        with db.write() as session:
            session.scalars(select(models.InstanceGroup)).one().policy = "anti-affinity"
        assert claim(db, claim_of("one", "a", 2, VCPU=2)) == {}

    def test_all_nodes_of_a_host_are_one_host(self, db: Database) -> None:
        hosts(db, "a", "b")
        with db.write() as session:
            session.scalars(select(models.ComputeNode).where(models.ComputeNode.host == "b")).one().host = "a"
        add_group(db, "g", "anti-affinity", "one", "two")
        assert set(claim(db, claim_of("one", "a"), claim_of("two", "b"))) == {named("two")}

    def test_a_group_that_is_deleted_refuses_no_server(self, db: Database) -> None:
        hosts(db, "a")
        add_group(db, "g", "anti-affinity", "one", "two")
        claim(db, claim_of("one", "a"))
        with db.write() as session:
            session.delete(session.scalars(select(models.InstanceGroup)).one())
        assert claim(db, claim_of("two", "a")) == {}

    def test_a_provider_that_goes_takes_the_places_with_it(self, db: Database) -> None:
        hosts(db, "a", "b")
        add_group(db, "g", "affinity", "one", "two")
        claim(db, claim_of("one", "a"))
        db.run(lambda session: of_node.delete(session, named("node a")))
        assert claim(db, claim_of("two", "b")) == {}
