"""Filters for aggregates that are reserved for the projects, flavors or images that their metadata names."""

from typing import Any

from minova.objects.catalogue.image_properties import FIELDS, typed
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import ClassFilter
from minova.scheduler.hosts.aggregate_values import Aggregates, texts, words


class AggregateMultiTenancyIsolation(ClassFilter):
    """If a key `filter_tenant_id...` names projects, only these projects pass; otherwise all do."""

    of = "aggregates"

    def verdict(self, value: Aggregates, spec: RequestSpec) -> str | None:
        lists = (ids for key, ids in words(value).items() if key.startswith("filter_tenant_id"))
        projects: set[str] = set().union(*lists)
        if not projects or spec.project_id in projects:
            return None
        return f"only for projects {', '.join(sorted(projects))}, not {spec.project_id}"


class AggregateTypeAffinityFilter(ClassFilter):
    """If a key `instance_type` names flavors, only these flavors pass."""

    of = "aggregates"

    def verdict(self, value: Aggregates, spec: RequestSpec) -> str | None:
        names = {name.strip() for text in texts(value, "instance_type") for name in text.split(",")}
        if not names or spec.flavor.name in names:
            return None
        return f"only for flavors {', '.join(sorted(names))}, not {spec.flavor.name}"


class AggregateImagePropertiesIsolation(ClassFilter):
    """If both the image and the metadata set a property, the image's value must be one of the metadata's."""

    of = "aggregates"
    RUN_ON_REBUILD = True

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        options = conf.filter_scheduler
        namespace = options.aggregate_image_properties_isolation_namespace
        self.prefix = f"{namespace}{options.aggregate_image_properties_isolation_separator}" if namespace else ""

    def verdict(self, value: Aggregates, spec: RequestSpec) -> str | None:
        if spec.image is None or not spec.image.properties:
            return None
        properties = typed(spec.image.properties)
        for key, allowed in words(value).items():
            has = properties.get(key) if key in FIELDS and key.startswith(self.prefix) else None
            if has and str(has) not in allowed:
                return f"image property {key} {has}, the aggregate is for {', '.join(sorted(allowed))}"
        return None
