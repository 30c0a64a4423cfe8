"""Commands that speak to a running cluster, one module for each subject."""
