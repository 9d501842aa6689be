"""Slow, literal implementations in float64, written from the papers' formulas, to hold the package against."""
