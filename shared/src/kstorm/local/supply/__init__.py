"""Third-party components of kstorm: known vulnerabilities, licences, and lists of the components."""
