"""`rowbus schema`: print, install, verify and grant the tables."""
