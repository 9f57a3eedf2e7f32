"""Flows in a layer between two plane walls, stepped as series of Stokes modes."""
