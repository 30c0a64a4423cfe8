"""What a history of jobs says about its cluster: studies, each of which makes findings."""
