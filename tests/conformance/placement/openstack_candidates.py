"""Runs inside the environment that OpenStack Placement is installed in, never in minova's own.

Reads one cloud with its queries as a line of JSON, answers with one line: (status, body) of each query.
"""

import json
import sqlite3
import sys
import tempfile
from typing import Any

from oslo_config import cfg
from placement import conf, db_api, deploy
from placement.db.sqlalchemy import migration
from webob import Request

LATEST = "placement 1.39"
# Each before those that it points to.
TABLES = (
    "allocations",
    "consumers",
    "inventories",
    "resource_provider_aggregates",
    "resource_provider_traits",
    "resource_providers",
    "placement_aggregates",
)


def application(path: str) -> Any:
    config = cfg.ConfigOpts()
    conf.register_opts(config)
    config.set_override("connection", f"sqlite:///{path}", group="placement_database")
    config([], project="placement", default_config_files=[])
    config.set_override("auth_strategy", "noauth2", group="api")
    db_api.configure(config)
    migration.create_schema(db_api.placement_context_manager.writer.get_engine())
    deploy.update_database(config)
    return deploy.loadapp(config)


class OpenStack:
    def __init__(self, path: str) -> None:
        self._path = path
        self._app = application(path)

    def call(self, method: str, path: str, body: Any = None, version: str = LATEST) -> tuple[int, Any]:
        request = Request.blank(
            path, method=method, headers={"X-Auth-Token": "admin", "OpenStack-API-Version": version}
        )
        if body is not None:
            request.content_type = "application/json"
            request.json = body
        answer = request.get_response(self._app)
        return answer.status_int, json.loads(answer.text) if answer.text else None

    def must(self, method: str, path: str, body: Any) -> Any:
        status, answer = self.call(method, path, body)
        if status >= 300:
            raise SystemExit(f"{method} {path} {body}: {status} {answer}")
        return answer

    def empty(self) -> None:
        with sqlite3.connect(self._path) as connection:
            connection.execute("UPDATE resource_providers SET parent_provider_id = NULL, root_provider_id = NULL")
            for table in TABLES:
                connection.execute(f"DELETE FROM {table}")

    def fill(self, cloud: dict[str, Any]) -> None:
        for provider in cloud["providers"]:
            uuid = provider["uuid"]
            body = {"uuid": uuid, "name": uuid, "parent_provider_uuid": provider["parent"]}
            self.must("POST", "/resource_providers", body)
            path = f"/resource_providers/{uuid}"
            put = {"resource_provider_generation": 0, "inventories": provider["inventories"]}
            answer = self.must("PUT", f"{path}/inventories", put)
            generation = answer["resource_provider_generation"]
            put = {"resource_provider_generation": generation, "traits": provider["traits"]}
            generation = self.must("PUT", f"{path}/traits", put)["resource_provider_generation"]
            put = {"resource_provider_generation": generation, "aggregates": provider["aggregates"]}
            self.must("PUT", f"{path}/aggregates", put)
        for uuid, allocations in cloud["consumers"].items():
            body = {
                "allocations": allocations,
                "project_id": "p",
                "user_id": "u",
                "consumer_generation": None,
                "consumer_type": "INSTANCE",
            }
            self.must("PUT", f"/allocations/{uuid}", body)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        openstack = OpenStack(f"{folder}/placement.sqlite")
        for line in sys.stdin:
            request = json.loads(line)
            openstack.empty()
            openstack.fill(request["cloud"])
            answers = []
            for version, query in request["queries"]:
                try:
                    answers.append(
                        openstack.call("GET", f"/allocation_candidates?{query}", version=f"placement {version}")
                    )
                except Exception as error:  # noqa: BLE001 - its own errors are answers too
                    answers.append((500, repr(error)))
            print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    main()
