"""What is measured of every explainer, for its fact sheet: `make facts`."""
