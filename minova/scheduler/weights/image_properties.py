"""ImagePropertiesWeigher: hosts whose instances have the same image properties first; negative: last."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minova.objects.catalogue.image_properties import typed
from minova.objects.hosts.pci import Pairs
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.hosts.table import Hosts, HostTable
from minova.scheduler.weights import Numbers, Weigher
from minova.scheduler.weights.ratios import ratios


class ImagePropertiesWeigher(Weigher):
    """Each property that an instance shares with the image counts with its ratio, or 1 if no ratios are set.

    As in Nova, the weight is 0 everywhere while the option is 0, whatever aggregates set.
    """

    option = "image_props_weight_multiplier"

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self.ratios = dict(
            ratios(conf.filter_scheduler.image_props_weight_setting, "[filter_scheduler] image_props_weight_setting")
        )

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        if isinstance(hosts, HostTable):
            return self.column(hosts, np.arange(len(hosts)), spec)
        return shared_weight(hosts.instance_images, self._ratios(spec)) if self.multiplier else 0

    def column(self, hosts: HostTable, rows: NDArray[np.int64], spec: RequestSpec) -> Numbers:
        """Reads only instances of these hosts, so a malformed image of another host's instance does not matter."""
        if not self.multiplier:
            return 0.0
        pair_ratios = self._ratios(spec)
        each, ids = hosts.class_column("instance_images")
        distinct, place = np.unique(ids[rows], return_inverse=True)
        return np.array([shared_weight(each[i], pair_ratios) for i in distinct.tolist()])[place]

    def _ratios(self, spec: RequestSpec) -> dict[tuple[str, str], float]:
        """Returns the ratio of each property that counts."""
        properties = spec.image.properties if spec.image else {}
        return {pair: self._ratio(pair[0]) for pair in property_pairs(tuple(sorted(properties.items())))}

    def _ratio(self, name: str) -> float:
        return self.ratios.get(name, 0.0) if self.ratios else 1.0


def shared_weight(images: Sequence[Pairs], pair_ratios: dict[tuple[str, str], float]) -> float:
    return sum((pair_ratios.get(pair, 0.0) for image in images for pair in property_pairs(image)), 0.0)


@lru_cache(maxsize=10_000)
def property_pairs(image: Pairs) -> tuple[tuple[str, str], ...]:
    """Returns names and values in a normalised spelling."""
    return tuple((name, str(value)) for name, value in typed(dict(image)).items())
