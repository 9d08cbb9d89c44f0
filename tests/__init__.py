"""The tests of minova."""
