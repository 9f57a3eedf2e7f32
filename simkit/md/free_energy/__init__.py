"""Free energies: states and their overlap, restraints on collective variables, exchange, metadynamics, work."""
