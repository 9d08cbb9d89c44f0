"""Makes things in a Placement over HTTP, with nothing but the standard library: it runs in OpenStack's environment."""

import json
import urllib.request
from collections.abc import Collection
from typing import Any


class Client:
    def __init__(self, url: str) -> None:
        self._url = url
        self._known: set[str] = set()

    def ask(self, method: str, path: str, body: Any = None, version: str = "1.39") -> Any:
        """The answer's document. urllib.error.HTTPError: it was refused."""
        headers = {
            "X-Auth-Token": "admin",
            "Accept": "application/json",
            "OpenStack-API-Version": f"placement {version}",
            "Content-Type": "application/json",
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def make_provider(self, name: str, uuid: str, parent: str | None = None) -> str:
        body = {"name": name, "uuid": uuid, "parent_provider_uuid": parent}
        provider_uuid: str = self.ask("POST", "/resource_providers", body)["uuid"]
        return provider_uuid

    def set_aggregates(self, provider: str, uuids: Collection[str]) -> None:
        """Without touching the provider's generation."""
        if uuids:
            self.ask("PUT", f"/resource_providers/{provider}/aggregates", [*uuids], "1.18")

    def add_inventory(self, provider: str, resource_class: str, numbers: dict[str, Any]) -> None:
        self._custom("resource_classes", resource_class)
        self.ask("POST", f"/resource_providers/{provider}/inventories", {"resource_class": resource_class, **numbers})

    def set_traits(self, provider: str, names: Collection[str]) -> None:
        if not names:
            return
        for name in names:
            self._custom("traits", name)
        path = f"/resource_providers/{provider}/traits"
        generation = self.ask("GET", path)["resource_provider_generation"]
        self.ask("PUT", path, {"traits": [*names], "resource_provider_generation": generation})

    def allocate(self, provider: str, consumer: str, project: str, user: str, resources: dict[str, int]) -> None:
        """As before there were generations and types of consumers."""
        body = {"allocations": {provider: {"resources": resources}}, "project_id": project, "user_id": user}
        self.ask("PUT", f"/allocations/{consumer}", body, "1.27")

    def _custom(self, kind: str, name: str) -> None:
        if name.startswith("CUSTOM_") and name not in self._known:
            self.ask("PUT", f"/{kind}/{name}")
            self._known.add(name)
