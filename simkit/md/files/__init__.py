"""Files of potentials."""
