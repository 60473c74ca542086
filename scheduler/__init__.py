"""Due times as APScheduler triggers, and the service that runs them."""
