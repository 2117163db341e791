"""`kstorm`, the operator's command: makes topologies ready, looks at them, and changes how they run."""
