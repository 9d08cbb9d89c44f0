"""Messages between services: RPC from contracts, and notifications, over oslo.messaging."""
