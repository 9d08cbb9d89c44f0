"""Policies of the Placement API."""

from minova.api.policies.base import PolicyRule, rules

_SERVICE = "rule:admin_or_service_api"

RULES: tuple[PolicyRule, ...] = rules(
    "placement:",
    ("resource_classes:list", _SERVICE, "List resource classes."),
    ("resource_classes:create", _SERVICE, "Create a resource class."),
    ("resource_classes:show", _SERVICE, "Show a resource class."),
    ("resource_classes:update", _SERVICE, "Rename a resource class, or make sure that there is one."),
    ("resource_classes:delete", _SERVICE, "Delete a resource class."),
    ("resource_providers:list", _SERVICE, "List resource providers."),
    ("resource_providers:create", _SERVICE, "Create a resource provider."),
    ("resource_providers:show", _SERVICE, "Show a resource provider."),
    ("resource_providers:update", _SERVICE, "Change a resource provider."),
    ("resource_providers:delete", _SERVICE, "Delete a resource provider."),
    ("resource_providers:inventories:list", _SERVICE, "List the inventories of a provider."),
    ("resource_providers:inventories:create", _SERVICE, "Create an inventory of a provider."),
    ("resource_providers:inventories:show", _SERVICE, "Show an inventory of a provider."),
    ("resource_providers:inventories:update", _SERVICE, "Replace inventories of a provider."),
    ("resource_providers:inventories:delete", _SERVICE, "Delete inventories of a provider."),
    ("resource_providers:usages", _SERVICE, "List the usages of a provider."),
    ("resource_providers:aggregates:list", _SERVICE, "List the aggregates of a provider."),
    ("resource_providers:aggregates:update", _SERVICE, "Replace the aggregates of a provider."),
    ("resource_providers:allocations:list", _SERVICE, "List the allocations of a provider."),
    ("resource_providers:traits:list", _SERVICE, "List the traits of a provider."),
    ("resource_providers:traits:update", _SERVICE, "Replace the traits of a provider."),
    ("resource_providers:traits:delete", _SERVICE, "Remove the traits of a provider."),
    ("traits:list", _SERVICE, "List traits."),
    ("traits:show", _SERVICE, "Show a trait."),
    ("traits:update", _SERVICE, "Create a trait."),
    ("traits:delete", _SERVICE, "Delete a trait."),
    ("allocations:manage", _SERVICE, "Replace the allocations of several consumers."),
    ("allocations:list", _SERVICE, "List the allocations of a consumer."),
    ("allocations:update", _SERVICE, "Replace the allocations of a consumer."),
    ("allocations:delete", _SERVICE, "Delete the allocations of a consumer."),
    ("allocation_candidates:list", _SERVICE, "List allocation candidates."),
    ("reshaper:reshape", _SERVICE, "Change inventories and allocations of several providers together."),
    (
        "usages",
        "rule:admin_or_service_api or rule:project_reader_api",
        "List the usages of a project.",
    ),
)
