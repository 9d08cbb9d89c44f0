"""Threads, pools, queues and shares of places, without knowledge of what runs in them."""
