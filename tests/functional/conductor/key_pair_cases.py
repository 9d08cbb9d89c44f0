"""Key pairs on every engine, and what servers keep of them."""

import msgspec
import pytest

from minova import errors
from minova.objects.catalogue.key_pair import KeyPair
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, request
from tests.functional.conductor.quota_cases import at_once, limit, refusals

MINE = KeyPair(name="mine", user_id=CTX.user_id, public_key="ssh-ed25519 AAAA", fingerprint="aa:bb")


class KeyPairCases:
    def test_a_key_pair_is_stored_and_removed(self, harness: ConductorHarness) -> None:
        stored = harness.conductor.create_key_pair(CTX, key_pair=MINE)
        assert msgspec.structs.replace(stored, id=0, created_at=None) == MINE
        assert stored.created_at is not None
        with pytest.raises(errors.Conflict, match="Key pair 'mine' already exists"):
            harness.conductor.create_key_pair(CTX, key_pair=MINE)
        harness.conductor.create_key_pair(CTX, key_pair=msgspec.structs.replace(MINE, name="Mine"))
        harness.conductor.delete_key_pair(CTX, user_id=MINE.user_id, name="mine")
        with pytest.raises(errors.NotFound, match=f"Keypair mine not found for user {MINE.user_id}"):
            harness.conductor.delete_key_pair(CTX, user_id=MINE.user_id, name="mine")

    def test_requests_at_once_do_not_exceed_the_quota_of_a_user(self, harness: ConductorHarness) -> None:
        limit(harness, key_pairs=3)

        def create(number: int) -> KeyPair:
            key_pair = msgspec.structs.replace(MINE, name=f"k{number}")
            return harness.conductor.create_key_pair(CTX, key_pair=key_pair)

        assert refusals(at_once(create)) == ["Quota exceeded, too many key pairs."] * 5
        harness.conductor.create_key_pair(CTX, key_pair=msgspec.structs.replace(MINE, user_id="bob"))

    def test_servers_keep_the_text_of_their_key(self, harness: ConductorHarness) -> None:
        created = harness.conductor.create_servers(CTX, request=request(2, key_name="mine"), key_pair=MINE)
        for uuid in created.instance_uuids:
            instance = harness.instance(uuid)
            assert (instance.key_name, instance.key_data, instance.key_type) == ("mine", MINE.public_key, "ssh")
        harness.settle()
        harness.build("a", uuid)
        (build,) = harness.conductor.instances_of_host(CTX, host="a").attempts
        assert (build.instance.key_data, build.instance.key_type) == (MINE.public_key, "ssh")
        (without,) = harness.conductor.create_servers(CTX, request=request(1)).instance_uuids
        instance = harness.instance(without)
        assert (instance.key_name, instance.key_data, instance.key_type) == (None, None, None)

    def test_what_a_host_holds_is_told_without_user_data_and_keys(self, harness: ConductorHarness) -> None:
        """64 kB of each server, in the answer to each audit of its host."""
        create_request = request(1, user_data="dXNlcg==", key_name="mine", config_drive=True)
        (uuid,) = harness.conductor.create_servers(CTX, request=create_request, key_pair=MINE).instance_uuids
        harness.settle()
        harness.build("a", uuid)
        (held,) = harness.conductor.instances_of_host(CTX, host="a").instances
        assert (held.uuid, held.user_data, held.key_data) == (uuid, None, None)
        assert (held.key_name, held.config_drive) == ("mine", True)
