"""Solves of systems with delays: a ring of past steps, steps that end on breaking points, and derivatives on the steps taken."""
