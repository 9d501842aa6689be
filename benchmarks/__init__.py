"""Speed, measured: `make bench`, or `python -m benchmarks NAME ...` with names of `benchmarks/__main__.py`."""
