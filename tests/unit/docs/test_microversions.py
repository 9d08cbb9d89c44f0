"""docs/reference/microversions.md says of every route and every microversion what is served."""

import re
import runpy
from pathlib import Path

from minova.api.compute.routes import ROUTES
from minova.api.compute.servers.actions import dispatch
from minova.api.compute.versions import MAX
from minova.api.http import microversions

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/reference/microversions.md"
TOOL = runpy.run_path(str(ROOT / "tools/microversions"))


def test_the_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text() == TOOL["page"](), "tools/microversions > docs/reference/microversions.md"


def test_every_table_is_on_the_page() -> None:
    listed = {id(history) for _, history in TOOL["HISTORIES"]}
    missing = [history.title for history in microversions._HISTORIES.values() if id(history) not in listed]
    assert missing == []


def test_every_version_says_what_it_is_about() -> None:
    silent = [minor for minor in range(2, MAX[1] + 1) if not [*TOOL["changes"]((2, minor))]]
    assert silent == []


def test_every_route_is_on_the_page() -> None:
    text = PAGE.read_text()
    assert [route.path for route in ROUTES if f"`{route.method} {route.path}`" not in text] == []


def test_the_page_has_the_status_that_a_handler_sets() -> None:
    rows = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    shown = {row[0].removeprefix("| ").strip("`"): row[2].removesuffix(" |") for row in rows if len(row) == 3}
    assert shown["POST /v2.1/servers/{server_id}/action"].startswith("202")
    assert shown["PUT /v2.1/servers/{server_id}/tags/{tag}"] == "201, or 204 for a tag that it has"
    volumes = [status for route, status in shown.items() if "os-volume_attachments" in route]
    assert sorted(volumes) == ["200", "501", "501", "501", "501"]


def test_bug_what_is_served_was_called_not_served() -> None:
    """Live migrations and images of aggregates were still not served by the page."""
    served = {
        part for route in ROUTES if route.status < 400 for part in route.path.split("/")
    } | dispatch.POLICIES.keys()
    wrong = [
        note
        for note in TOOL["OTHERS"].values()
        if "not served" in note and served & set(re.findall(r"[\w-]+", " ".join(re.findall("`(.*?)`", note))))
    ]
    assert wrong == []
