"""The endpoints, one module per kind of page. `kstorm_ui.app` combines their `routes(site)`."""
