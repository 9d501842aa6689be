"""Harm done on purpose: kills, faults, damage, bad input, two owners. `make chaos` prints what became of it."""
