"""The flavors of a new cloud."""

from minova.objects.catalogue.flavor import Flavor

# The file in minova-standalone's state folder that says that it has made them once.
MADE = "flavors-made"

# The usual flavors of OpenStack, and two small ones for small guests.
FLAVORS = (
    Flavor(flavorid="42", name="m1.nano", vcpus=1, memory_mb=128, root_gb=1),
    Flavor(flavorid="84", name="m1.micro", vcpus=1, memory_mb=192, root_gb=1),
    Flavor(flavorid="1", name="m1.tiny", vcpus=1, memory_mb=512, root_gb=1),
    Flavor(flavorid="2", name="m1.small", vcpus=1, memory_mb=2048, root_gb=20),
    Flavor(flavorid="3", name="m1.medium", vcpus=2, memory_mb=4096, root_gb=40),
    Flavor(flavorid="4", name="m1.large", vcpus=4, memory_mb=8192, root_gb=80),
    Flavor(flavorid="5", name="m1.xlarge", vcpus=8, memory_mb=16384, root_gb=160),
)
