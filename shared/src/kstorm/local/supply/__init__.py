"""What kstorm is made of besides its own code: what is known to be unsafe among it, under which licences it is, and lists of it."""
