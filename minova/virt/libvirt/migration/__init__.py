"""Moves of guests between hosts: their files over TLS with a key of each move, and live migration by libvirt."""
