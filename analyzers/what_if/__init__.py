"""What a job would take if something were otherwise: its operations, replayed with other durations."""
