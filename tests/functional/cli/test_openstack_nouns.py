"""Options and words of OpenStack's client for flavors, hosts, groups, keys and usage, against minova-api itself."""

from datetime import timedelta

import pytest

from tests.fakes.row_conductor import now
from tests.functional.api.compute.test_aggregates import add_host
from tests.functional.api.conftest import Cloud
from tests.functional.cli.conftest import Cli, json_output, succeed
from tests.unit.api.compute.test_public_keys import ED25519

JSON = ("-f", "json")


def column(minova: Cli, name: str, *words: str) -> list[object]:
    return [row[name] for row in json_output(minova(*words, *JSON))]


@pytest.fixture
def flavors(minova: Cli) -> Cli:
    succeed(minova("flavor", "create", "small", "--id", "1", "--ram", "128", "--disk", "1", "--rxtx-factor", "2.5"))
    succeed(minova("flavor", "create", "big", "--id", "2", "--ram", "1024", "--disk", "9", "--public"))
    succeed(minova("flavor", "create", "own", "--id", "3", "--ram", "512", "--disk", "5", "--private"))
    return minova


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((), ["small", "big"]),
        (("--public",), ["small", "big"]),
        (("--private",), ["own"]),
        (("--all",), ["small", "big", "own"]),
        (("--min-ram", "200"), ["big"]),
        (("--min-disk", "5", "--all"), ["big", "own"]),
        (("--marker", "1"), ["big"]),
        (("--all", "--max-items", "2"), ["small", "big"]),
    ],
    ids=lambda value: " ".join(value) or "none",
)
def test_flavors_are_listed_as_wanted(flavors: Cli, words: tuple[str, ...], names: list[str]) -> None:
    assert column(flavors, "Name", "flavor", "list", *words) == names


def test_more_columns_of_flavors(flavors: Cli) -> None:
    succeed(flavors("flavor", "set", "big", "--property", "a=b", "--description", "for builds"))
    (_, big) = json_output(flavors("flavor", "list", "--long", *JSON))
    assert (big["RXTX Factor"], big["Description"], big["Properties"]) == (1.0, "for builds", {"a": "b"})
    assert json_output(flavors("flavor", "show", "small", *JSON))["rxtx_factor"] == 2.5


def test_properties_of_a_flavor_in_place_of_those_of_before(flavors: Cli) -> None:
    def properties() -> object:
        return json_output(flavors("flavor", "show", "big", *JSON))["properties"]

    succeed(flavors("flavor", "set", "big", "--property", "a=1", "--property", "b=1"))
    succeed(flavors("flavor", "set", "big", "--no-property", "--property", "b=2", "--property", "c=2"))
    assert properties() == {"b": "2", "c": "2"}
    succeed(flavors("flavor", "set", "big", "--no-property"))
    assert properties() == {}


def test_who_may_use_a_private_flavor(flavors: Cli, cloud: Cloud) -> None:
    def projects(flavor: str) -> list[str]:
        access = cloud.get(f"/v2.1/flavors/{flavor}/os-flavor-access")["flavor_access"]
        return sorted(entry["tenant_id"] for entry in access)

    succeed(flavors("flavor", "create", "theirs", "--id", "4", "--private", "--project", "demo"))
    assert projects("4") == ["demo"]
    succeed(flavors("flavor", "set", "theirs", "--project", "other"))
    assert projects("4") == ["demo", "other"]
    succeed(flavors("flavor", "unset", "theirs", "--project", "demo"))
    assert projects("4") == ["other"]
    public = flavors("flavor", "set", "big", "--project", "demo")
    assert (public.code, "Can not add access to a public flavor" in public.err) == (1, True)
    refused = flavors("flavor", "create", "fifth", "--id", "5", "--private", "--project", "no such name")
    assert (refused.code, "Flavor fifth was made, and project no such name may not use it" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("flavor", "create", "x", "--project", "demo"), "--project goes with --private"),
        (("flavor", "create", "x", "--rxtx-factor", "0"), "'0' is not a number above 0"),
        (("flavor", "create", "x", "--rxtx-factor", "much"), "'much' is not a number above 0"),
        (("flavor", "create", "x", "--public", "--private"), "not allowed with argument"),
        (("flavor", "list", "--all", "--private"), "not allowed with argument"),
        (("flavor", "set", "x"), "Say what is to be set: --property, --no-property, --project"),
        (("flavor", "unset", "x"), "Say what is to be unset: --property or --project"),
        (("aggregate", "set", "x"), "Say what to set: --name, --zone, --property or --no-property"),
        (("server", "group", "create", "x", "--rule", "max_server_per_host=2", "--max-server-per-host", "2"), "same thing"),
        (("keypair", "list", "--project", "p", "--user", "u"), "--project goes without --user and --marker"),
        (("keypair", "list", "--project", "p"), "--project is for clouds with Keystone"),
        (("keypair", "show", "k", "--user", "u", "--user-domain", "d"), "--user-domain is for clouds with Keystone"),
        (("service", "set", "h1"), "Say what is to be set: --enable, --disable, --down or --up"),
        (("service", "set", "h1", "--down", "--disable-reason", "fan"), "--disable-reason goes with --disable"),
        (("usage", "list", "--start", "soon"), "'soon' is not a day such as 2026-01-20"),
        (("usage", "list", "--start", "2026-02-01", "--end", "2026-01-01"), "--start is not before --end"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_what_cannot_be_is_wrong_usage(minova: Cli, words: tuple[str, ...], message: str) -> None:
    result = minova(*words)
    assert (result.code, message in result.err) == (2, True), result.err


def test_aggregates_of_a_host_and_of_a_zone(minova: Cli, cloud: Cloud) -> None:
    add_host(cloud, "h1")
    succeed(minova("aggregate", "create", "north", "--zone", "n", "--property", "a=1", "--property", "b=1"))
    succeed(minova("aggregate", "create", "south", "--zone", "s"))
    succeed(minova("aggregate", "create", "fast"))
    for name in ("north", "fast"):
        succeed(minova("aggregate", "add", "host", name, "h1"))
    assert column(minova, "Name", "aggregate", "list", "--host", "h1") == ["north", "fast"]
    assert column(minova, "Name", "aggregate", "list", "--availability-zone", "s") == ["south"]
    assert column(minova, "Name", "aggregate", "list", "--availability-zone", "n", "--host", "h1") == ["north"]
    assert column(minova, "Name", "aggregate", "list", "--host", "h2") == []
    (uuid,) = column(minova, "UUID", "aggregate", "list", "--availability-zone", "s", "--long")
    assert json_output(minova("aggregate", "show", "south", *JSON))["uuid"] == uuid is not None
    succeed(minova("aggregate", "set", "north", "--no-property", "--property", "b=2"))
    shown = json_output(minova("aggregate", "show", "north", *JSON))
    assert (shown["properties"], shown["availability_zone"]) == ({"b": "2"}, "n")
    succeed(minova("aggregate", "set", "north", "--no-property"))
    assert json_output(minova("aggregate", "show", "north", *JSON))["properties"] == {}


def test_pages_of_hypervisors(minova: Cli, cloud: Cloud) -> None:
    for host in ("even0", "odd1", "even2", "odd3"):
        add_host(cloud, host)

    def listed(*words: str) -> list[object]:
        return column(minova, "Hypervisor Hostname", "hypervisor", "list", *words)

    assert listed("--limit", "2") == ["even0-node", "odd1-node"]
    assert listed("--marker", "odd1-node", "--max-items", "1") == ["even2-node"]
    assert listed("--marker", "even0", "--matching", "odd", "--limit", "1") == ["odd1-node"]
    assert listed("--matching", "odd", "--limit", "1", "--long") == ["odd1-node"]
    assert json_output(minova("hypervisor", "stats", "show", *JSON))["count"] == 4


def test_rules_and_pages_of_server_groups(minova: Cli, cloud: Cloud) -> None:
    words = ("--policy", "anti-affinity", "--rule", "max_server_per_host=2")
    server_group = json_output(minova("server", "group", "create", "g0", *words, *JSON))
    assert server_group["rules"] == {"max_server_per_host": 2}
    refused = minova("server", "group", "create", "x", "--policy", "anti-affinity", "--rule", "colour=red")
    assert (refused.code, "colour" in refused.err) == (1, True)
    for name in ("g1", "g2", "g3"):
        succeed(minova("server", "group", "create", name))

    def listed(*words: str) -> list[object]:
        return column(minova, "Name", "server", "group", "list", *words)

    every = listed()
    assert sorted(map(str, every)) == ["g0", "g1", "g2", "g3"]
    assert listed("--limit", "2") == every[:2]
    assert listed("--offset", "1", "--limit", "2") == every[1:3]
    cloud.conf.set_override("max_limit", 1, group="api")
    assert listed("--max-items", "1") == every[:1]


def test_compute_services_by_the_words_of_openstack(minova: Cli, cloud: Cloud) -> None:
    add_host(cloud, "h1")

    def only() -> dict[str, object]:
        (row,) = json_output(minova("compute", "service", "list", "--service", "nova-compute", "--long", *JSON))
        return {key: row[key] for key in ("Host", "Status", "State", "Disabled Reason", "Forced Down")}

    succeed(minova("compute", "service", "set", "h1", "nova-compute", "--disable", "--disable-reason", "fan", "--down"))
    assert only() == {
        "Host": "h1", "Status": "disabled", "State": "down", "Disabled Reason": "fan", "Forced Down": True
    }  # fmt: skip
    succeed(minova("compute", "service", "set", "h1", "nova-compute", "--enable", "--up"))
    assert (only()["Status"], only()["Forced Down"]) == ("enabled", False)
    (identity,) = column(minova, "ID", "compute", "service", "list")
    succeed(minova("compute", "service", "delete", str(identity)))
    assert column(minova, "ID", "compute", "service", "list") == []


def test_key_pairs_of_another_user(minova: Cli, cloud: Cloud) -> None:
    for user in ("alice", "bob"):
        for name in ("one", "two"):
            key = {"name": f"{user}-{name}", "public_key": ED25519, "user_id": user}
            status, _ = cloud.ask("POST", "/v2.1/os-keypairs", {"keypair": key}, headers={"X-Minova-Fields": "all"})
            assert status in {200, 201}
    assert column(minova, "Name", "keypair", "list", "--user", "bob", "--max-items", "1") == ["bob-one"]
    assert column(minova, "Name", "keypair", "list", "--user", "bob", "--marker", "bob-one") == ["bob-two"]
    succeed(minova("keypair", "delete", "bob-one", "--user", "bob"))
    assert column(minova, "Name", "keypair", "list", "--user", "bob") == ["bob-two"]
    assert json_output(minova("keypair", "show", "alice-one", "--user", "alice", *JSON))["user_id"] == "alice"


def test_what_projects_have_used(stocked: Cli, cloud: Cloud) -> None:
    for name in ("a", "b", "c"):
        succeed(stocked("server", "create", name, "--flavor", "tiny", "--image", "guest"))
    servers = {row["Name"]: row["ID"] for row in json_output(stocked("server", "list", *JSON))}
    for uuid in servers.values():
        cloud.conductor.edit(uuid, vm_state="active", task_state=None, launched_at=now() - timedelta(hours=2))
    cloud.conductor.edit(servers["c"], project_id="theirs")
    for most in (1000, 1):  # a project's servers are on several pages, too
        cloud.conf.set_override("max_limit", most, group="api")
        rows = {row["Project"]: row for row in json_output(stocked("usage", "list", *JSON))}
        assert {project: len(row["Servers"]) for project, row in rows.items()} == {"admin": 2, "theirs": 1}
        assert rows["admin"]["CPU Hours"] == pytest.approx(4, rel=0.1)
        assert rows["theirs"]["RAM MB-Hours"] == pytest.approx(2 * 128, rel=0.1)
        own = json_output(stocked("usage", "show", *JSON))
        assert (own["Project"], len(own["Servers"])) == ("admin", 2)
        assert own["Disk GB-Hours"] == pytest.approx(4, rel=0.1)
    theirs = succeed(stocked("usage", "show", "--project", "theirs", "-f", "value")).out.split("\n")
    assert theirs[0] == "theirs"
    assert "| Servers       | 1 " in succeed(stocked("usage", "show", "--project", "theirs")).out
    before = ("--start", "2020-01-01", "--end", "2020-02-01")
    assert json_output(stocked("usage", "list", *before, *JSON)) == []
    assert json_output(stocked("usage", "show", *before, *JSON))["Servers"] == []
