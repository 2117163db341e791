"""`kstorm`, the operator's command: prepares topologies, shows them, and changes how they run."""
