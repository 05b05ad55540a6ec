"""What one trace file says alone: a pure function of the file, ending in its RankRecord."""
