"""The engines that run jobs: the parts that they share, and one folder for each engine."""
