"""RankRecord: all that one trace file says, small enough to keep for every rank of a run.

`rank_record(trace)` is a pure function of the file: the worker processes run it, the cache keeps its result, and everything
that needs more than one rank (matching, clocks, waits, rules) starts from it.
"""
