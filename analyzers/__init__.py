"""From traces to a Diagnosis. Pure: no printing, no plotting, no torch; only `loading` touches files."""
