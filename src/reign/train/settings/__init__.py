"""Settings of a run, and the metrics, losses, optimisers and schedules that they name."""
