"""What a run directory says without a trace: stages of each step on each rank, and who delays the group in which stage."""
