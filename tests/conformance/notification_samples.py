"""Facts of Nova's samples of versioned notifications: python -m tests.conformance.notification_samples FOLDER > FILE

FOLDER: doc/notification_samples of Nova's source package. The output, data/notification-samples.json, has no values: by
event its priority, publisher and payload, and by payload its version and the types of its fields, `null` where one sample has none.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Json = dict[str, Any]

FILE = Path(__file__).with_name("data") / "notification-samples.json"
SAMPLES: Json = json.loads(FILE.read_text())
# No sample has one: version and fields of Nova 34's code.
NOT_SHOWN = {
    "InstancePCIRequestPayload": ("1.1", {"count", "spec", "alias_name", "request_id", "numa_policy"}),
    "ServerGroupPayload": (
        "1.1",
        {"uuid", "name", "project_id", "user_id", "policies", "policy", "rules", "members", "hosts"},
    ),
}
# The samples show these fields with other types than minova's values, which Nova's own code allows.
OF_ANOTHER_TYPE = {("InstanceCreatePayload", "trusted_image_certificates"), ("FlavorPayload", "projects")}


def main() -> None:
    samples = Samples(Path(sys.argv[1]))
    json.dump({"events": samples.events, "payloads": samples.payloads}, sys.stdout, indent=1, sort_keys=True)
    print()


class Samples:
    """`events`: {event type: {priority, source, payload}}. `payloads`: {name: {version, fields: {name: types}}}."""

    def __init__(self, folder: Path) -> None:
        self.events: Json = {}
        self.payloads: Json = {}
        for file in sorted(folder.glob("*.json")):
            sample = _resolved(json.loads(file.read_text()), folder)
            payload = sample["payload"]
            self._note(payload)
            self.events[sample["event_type"]] = {
                "priority": sample["priority"],
                "source": sample["publisher_id"].partition(":")[0],
                "payload": payload["nova_object.name"],
            }

    def _note(self, payload: Mapping[str, Any]) -> None:
        """The payload, and those inside it."""
        name, data = payload["nova_object.name"], payload["nova_object.data"]
        of_payload = self.payloads.setdefault(name, {"version": payload["nova_object.version"], "fields": {}})
        for field, value in data.items():
            of_payload["fields"][field] = sorted({*of_payload["fields"].get(field, []), kind_of(value)})
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, dict) and "nova_object.name" in inner:
                    self._note(inner)


def kind_of(value: Any) -> str:
    """Of a field's value: a type of JSON, or the name of the payload that it is."""
    if isinstance(value, dict):
        return str(value.get("nova_object.name", "object"))
    names = {type(None): "null", bool: "boolean", int: "number", float: "number", str: "string", list: "array"}
    return names[type(value)]


def require_payload(payload: Mapping[str, Any]) -> None:
    """That version, fields and their types are those of the samples, of this payload and those inside it."""
    name, data = payload["nova_object.name"], payload["nova_object.data"]
    if name in NOT_SHOWN:
        assert (payload["nova_object.version"], {*data}) == NOT_SHOWN[name]
        return
    sample = SAMPLES["payloads"][name]
    assert payload["nova_object.namespace"] == "nova"
    assert payload["nova_object.version"] == sample["version"], name
    if name != "ImageMetaPropsPayload":  # an image has the properties that it has
        assert {*data} == {*sample["fields"]}, name
    for field, value in data.items():
        kinds = {*sample["fields"].get(field, []), "null"}
        if kinds != {"null"} and (name, field) not in OF_ANOTHER_TYPE:
            assert kind_of(value) in kinds, (name, field, value)
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict) and "nova_object.name" in inner:
                require_payload(inner)


def _resolved(value: Any, folder: Path) -> Any:
    """With what `$ref` names, under what stands beside it."""
    if isinstance(value, list):
        return [_resolved(item, folder) for item in value]
    if not isinstance(value, dict):
        return value
    own = {key: _resolved(item, folder) for key, item in value.items() if key != "$ref"}
    if "$ref" not in value:
        return own
    path = folder / value["$ref"].rstrip("#")
    return _merged(_resolved(json.loads(path.read_text()), path.parent), own)


def _merged(below: Json, above: Json) -> Json:
    both = {**below}
    for key, value in above.items():
        old = below.get(key)
        both[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return both


if __name__ == "__main__":
    main()
