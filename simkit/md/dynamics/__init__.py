"""Equations of motion, thermostats, barostats and constraints."""
