"""Interaction potentials."""
