"""Usage by project and time."""
