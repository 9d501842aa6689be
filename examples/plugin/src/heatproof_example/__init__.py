"""A template of a Heatproof plug-in: one module for each thing that it adds."""
