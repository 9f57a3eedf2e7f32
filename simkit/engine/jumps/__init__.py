"""Jump processes: paths in lanes, and the checks before them."""
