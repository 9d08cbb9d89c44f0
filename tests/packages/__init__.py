"""Packages and images of the tree, built and installed; nightly."""
