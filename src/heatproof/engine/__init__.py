"""Where and when the steps run: units of work, parts on disk, executors."""
