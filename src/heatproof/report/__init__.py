"""The page: one self-contained HTML file per run."""
