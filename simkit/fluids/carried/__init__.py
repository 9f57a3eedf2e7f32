"""Bodies that a flow carries."""
