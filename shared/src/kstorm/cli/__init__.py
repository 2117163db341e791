"""`kstorm`, the operator's command: prepares, shows and controls topologies."""
