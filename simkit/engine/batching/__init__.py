"""Batches of members, on one device and over a mesh."""
