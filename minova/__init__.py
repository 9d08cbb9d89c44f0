"""minova: a small, faithful OpenStack Nova."""
