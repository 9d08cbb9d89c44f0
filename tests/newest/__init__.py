"""Nightly tests with the newest servers of Debian, which tools/check unpacks beside those of this machine."""
