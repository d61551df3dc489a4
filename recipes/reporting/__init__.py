"""Pages about runs that are over or still going."""
