"""What was used, by project and time."""
