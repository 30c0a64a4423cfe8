"""Studies of a history of jobs; each makes findings about its cluster."""
