"""`kstorm`, the operator's command: looks at topologies, and changes how they run."""
