"""`/extensions`, by which old clients ask what the API has."""

from minova.api.compute.routes import ROUTES
from tests.functional.api.conftest import Cloud

# Parts with routes of their own, whose aliases are the names of these.
RESOURCES = {route.path.split("/")[2] for route in ROUTES if route.path.startswith("/v2.1/os-")}


def test_extensions_are_listed_and_shown_by_their_alias(cloud: Cloud) -> None:
    listed = {extension["alias"]: extension for extension in cloud.get("/v2.1/extensions")["extensions"]}
    assert listed["os-hosts"]["name"] == "Hosts"
    for alias, listed_extension in listed.items():
        assert set(listed_extension) == {"alias", "name", "description", "links", "namespace", "updated"}
        assert cloud.get(f"/v2.1/extensions/{alias}") == {"extension": listed_extension}
    assert cloud.ask("GET", "/v2.1/extensions/unknown")[0] == 404


def test_what_is_not_served_is_no_extension(cloud: Cloud) -> None:
    aliases = {extension["alias"] for extension in cloud.get("/v2.1/extensions")["extensions"]}
    assert {"os-keypairs", "os-aggregates", "os-hypervisors"} <= aliases & RESOURCES
    assert aliases.isdisjoint({"os-volumes", "os-cells", "os-evacuate", "os-floating-ips", "os-fping"})
