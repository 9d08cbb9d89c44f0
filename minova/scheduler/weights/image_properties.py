"""ImagePropertiesWeigher: hosts whose instances have the same image properties first; negative: last."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from minova.objects.image_properties import typed
from minova.objects.pci import Pairs
from minova.objects.request_spec import RequestSpec
from minova.scheduler.host_table import Hosts, HostTable
from minova.scheduler.settings import ratios
from minova.scheduler.weights import Weigher


class ImagePropertiesWeigher(Weigher):
    """Each instance's property that the image shares counts its ratio, or 1 where no ratios are set.

    As in Nova it weighs 0 everywhere while its option is 0, whatever aggregates say.
    """

    option = "image_props_weight_multiplier"

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self.ratios = dict(
            ratios(conf.filter_scheduler.image_props_weight_setting, "[filter_scheduler] image_props_weight_setting")
        )

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        if not self.multiplier or spec.image is None:
            return 0
        wanted = {pair: self._ratio(pair[0]) for pair in told(tuple(sorted(spec.image.properties.items())))}
        if not isinstance(hosts, HostTable):
            return shared(hosts.instance_images, wanted)
        each, ids = hosts.class_column("instance_images")
        return np.array([shared(images, wanted) for images in each])[ids]

    def _ratio(self, name: str) -> float:
        return self.ratios.get(name, 0.0) if self.ratios else 1.0


def shared(images: Sequence[Pairs], wanted: dict[tuple[str, str], float]) -> float:
    return sum((wanted.get(pair, 0.0) for image in images for pair in told(image)), 0.0)


@lru_cache(maxsize=10_000)
def told(image: Pairs) -> tuple[tuple[str, str], ...]:
    """Names and values in one spelling."""
    return tuple((name, str(value)) for name, value in typed(dict(image)).items())
