"""`kstorm`, the operator's command. Each module here is one group of its verbs: `kstorm offsets …`."""
