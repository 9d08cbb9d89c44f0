"""Tempest's tests of the Compute API, against minova with Keystone and Glance from their packages."""
