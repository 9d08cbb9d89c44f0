"""Nova's request filters: they derive a request's query of Placement before any host is filtered. Pure: a spec in, a
spec out.

flavor and image -> resources and traits -> the project's and the zone's aggregates, aggregates kept for others

Names, defaults and results are as in Nova 34.0.0. An invalid trait or resource is an error here; Nova ignores it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import os_traits

from minova import errors
from minova.objects.requests.request_spec import PlacementFilter, RequestSpec
from minova.objects.requests.required_traits import TRAIT_PREFIX, required_of_image, traits_of
from minova.scheduler.hosts.record import AggregateFacts
from minova.scheduler.request.pinned_cpus import with_resources

TENANT_KEY = "filter_tenant_id"
ZONE_KEY = "availability_zone"
# The prefix of the trait for the value of each image property (image_metadata_prefilter).
IMAGE_TRAITS = {
    "hw_cdrom_bus": "COMPUTE_STORAGE_BUS",
    "hw_disk_bus": "COMPUTE_STORAGE_BUS",
    "hw_video_model": "COMPUTE_GRAPHICS_MODEL",
    "hw_vif_model": "COMPUTE_NET_VIF_MODEL",
    "hw_architecture": "HW_ARCH",
    "hw_emulation_architecture": "COMPUTE_ARCH",
    "hw_viommu_model": "COMPUTE_VIOMMU",
}


class RequestFilterOptions(NamedTuple):
    """Options of the group [scheduler] under their names, and one of [workarounds]."""

    limit_tenants_to_placement_aggregate: bool = False
    placement_aggregate_required_for_tenants: bool = False
    query_placement_for_image_type_support: bool = False
    enable_isolated_aggregate_filtering: bool = False
    image_metadata_prefilter: bool = False
    disable_fallback_pcpu_query: bool = False


def options_of(conf: Any) -> RequestFilterOptions:
    of_scheduler = {
        name: getattr(conf.scheduler, name) for name in RequestFilterOptions._fields if name in conf.scheduler
    }
    return RequestFilterOptions(
        **of_scheduler, disable_fallback_pcpu_query=conf.workarounds.disable_fallback_pcpu_query
    )


def needs_aggregates(spec: RequestSpec, options: RequestFilterOptions) -> bool:
    """Whether `apply_request_filters` needs the aggregates for this request."""
    limited = options.limit_tenants_to_placement_aggregate or options.enable_isolated_aggregate_filtering
    return limited or spec.availability_zone is not None


def apply_request_filters(
    spec: RequestSpec, aggregates: Sequence[AggregateFacts], options: RequestFilterOptions
) -> RequestSpec:
    """Returns the request with `placement` set, and `fallback` if there is one. `aggregates`: all aggregates.

    Raises BadRequest, which names key and value, for a malformed trait or resource, NoValidHost if the project may use
    no host.
    """
    required, forbidden = traits_of(spec.flavor.extra_specs)
    required |= required_of_image(spec.image)
    isolated = _isolated(aggregates, required) if options.enable_isolated_aggregate_filtering else ()
    required |= {*_image_type(spec, options), *_image_features(spec, options)}
    placement = spec.placement
    common = PlacementFilter(
        required_traits=tuple(sorted({*placement.required_traits, *required})),
        # Excludes nodes of disabled services, if their computes publish this trait.
        forbidden_traits=tuple(sorted({*placement.forbidden_traits, *forbidden, os_traits.COMPUTE_STATUS_DISABLED})),
        member_of=(*placement.member_of, *_tenant(spec, aggregates, options), *_zone(spec, aggregates)),
        forbidden_aggregates=tuple(sorted({*placement.forbidden_aggregates, *isolated})),
        segments=placement.segments,
    )
    first, fallback = with_resources(common, spec, fall_back=not options.disable_fallback_pcpu_query)
    return msgspec.structs.replace(spec, placement=first, fallback=fallback)


# -- aggregates --------------------------------------------------------------------------------------------------------


def _tenant(
    spec: RequestSpec, aggregates: Sequence[AggregateFacts], options: RequestFilterOptions
) -> Iterator[tuple[str, ...]]:
    """Yields the aggregates that name the project in a key such as filter_tenant_id or filter_tenant_id2."""
    if not options.limit_tenants_to_placement_aggregate:
        return
    own = _uuids(aggregates, lambda key, value: key.startswith(TENANT_KEY) and value == spec.project_id)
    if own:
        yield own
    elif options.placement_aggregate_required_for_tenants:
        raise errors.NoValidHost(f"No hosts available for tenant {spec.project_id}: no aggregate names it.")


def _zone(spec: RequestSpec, aggregates: Sequence[AggregateFacts]) -> Iterator[tuple[str, ...]]:
    """Yields the aggregates of the zone. A zone without aggregates, such as the default zone, is left to
    AvailabilityZoneFilter.
    """
    zone = spec.availability_zone
    if zone:
        zone_aggregates = _uuids(aggregates, lambda key, value: (key, value) == (ZONE_KEY, zone))
        if zone_aggregates:
            yield zone_aggregates


def _isolated(aggregates: Sequence[AggregateFacts], required: set[str]) -> tuple[str, ...]:
    """Returns aggregates that require a trait that neither the flavor nor the image requires."""
    own = {TRAIT_PREFIX + trait for trait in required}
    return _uuids(
        aggregates, lambda key, value: key.startswith(TRAIT_PREFIX) and value == "required" and key not in own
    )


def _uuids(aggregates: Sequence[AggregateFacts], matches: Any) -> tuple[str, ...]:
    """Returns the uuids of the aggregates with any metadata pair for which `matches` is true."""
    return tuple(
        aggregate.uuid for aggregate in aggregates if any(matches(key, value) for key, value in aggregate.metadata)
    )


# -- the image ---------------------------------------------------------------------------------------------------------


def _image_type(spec: RequestSpec, options: RequestFilterOptions) -> Iterator[str]:
    if options.query_placement_for_image_type_support and spec.image is not None and spec.image.disk_format:
        yield from _standard_traits([f"COMPUTE_IMAGE_TYPE_{spec.image.disk_format.upper()}"])


def _image_features(spec: RequestSpec, options: RequestFilterOptions) -> Iterator[str]:
    if options.image_metadata_prefilter and spec.image is not None:
        properties: Mapping[str, str] = spec.image.properties
        yield from _standard_traits(
            [
                f"{prefix}_{properties[key].replace('-', '_').upper()}"
                for key, prefix in IMAGE_TRAITS.items()
                if key in properties
            ]
        )


def _standard_traits(traits: list[str]) -> list[str]:
    """Returns all traits, or none if one is not a standard trait: then the filter adds nothing, as in Nova."""
    return traits if all(hasattr(os_traits, trait) for trait in traits) else []
