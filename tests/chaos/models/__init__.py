"""Small models of what concurrent processes may do, explored to their end: every order of steps and faults."""
