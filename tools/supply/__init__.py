"""Third-party components of kstorm: known vulnerabilities, licences, and component lists."""
