"""IsolatedHostsFilter: chosen images on chosen hosts only."""

from typing import Any

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters.by_name import NamedHosts, NameFilter


class IsolatedHostsFilter(NameFilter):
    """Isolated images run on isolated hosts only. These hosts accept other images only if the option allows it."""

    RUN_ON_REBUILD = True

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        options = conf.filter_scheduler
        self.hosts = {(host, None) for host in options.isolated_hosts}
        self.images = set(options.isolated_images)
        self.restrict: bool = options.restrict_isolated_hosts_to_isolated_images

    def named_hosts(self, spec: RequestSpec) -> NamedHosts | None:
        image = spec.image.id if spec.image else None
        if image in self.images:
            return NamedHosts(self.hosts, f"image {image} needs an isolated host")
        if not self.restrict or not self.hosts:
            return None
        return NamedHosts(self.hosts, "isolated host, and the image is not isolated", but=True)
