"""What only the files of several ranks can tell: matching, clocks, waits and who caused them."""
