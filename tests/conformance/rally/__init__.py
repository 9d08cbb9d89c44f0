"""The unchanged Rally, against minova with Keystone and Glance from their packages."""
