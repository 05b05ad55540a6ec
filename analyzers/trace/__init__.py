"""What one file recorded, as typed tables in integer nanoseconds. Only the readers know file formats."""
