"""What a person touches: the command line. The composition root: only here and in the face do readers meet reports."""
