"""The endpoints, a module for each kind of page: `routes(site)` gives what `kstorm_ui.app` puts together."""
