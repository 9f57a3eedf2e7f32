"""Neighbour lists, and sums over pairs."""
