"""What flavors and images ask of a guest, key by key: the table of all keys, what is refused, and devices that are not disks."""
