"""Energy minimisation."""
