"""`kstorm`, the operator's command. Each module here is one of its verbs, or a group of them: `kstorm offsets …`."""
