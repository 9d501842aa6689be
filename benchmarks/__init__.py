"""Speed, measured: `make bench` or `python -m benchmarks [standard-run] [captum] [rise]`."""
