"""Flows on a sphere, stepped as series of spherical harmonics."""
