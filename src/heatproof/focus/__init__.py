"""Focus: pictures, mosaics, the classifiers that see them, and what is found in the scores."""
