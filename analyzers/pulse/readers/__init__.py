"""Readers of a run directory's files. Whoever wrote them may have been killed: what is whole is kept, the rest counted."""
