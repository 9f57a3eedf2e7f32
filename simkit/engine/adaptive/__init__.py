"""Adaptive solves as one JAX operation with derivatives of any order."""
