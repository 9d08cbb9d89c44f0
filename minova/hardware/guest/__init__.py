"""Guest hardware by keys of flavors and images: the table of all keys, refused keys, and devices that are not disks."""
