"""The engines that run jobs: what they share, and an engine in each folder."""
