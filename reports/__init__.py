"""From a Diagnosis to something a person reads. Sections say what, renderers say how."""
