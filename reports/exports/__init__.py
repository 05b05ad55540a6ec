"""What leaves rankscope for other programs, one file a format. Each writes as it reads: one rank in memory at a time."""
