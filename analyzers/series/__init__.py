"""Step times as a series: warm-up, lasting changes, spikes and their period."""
