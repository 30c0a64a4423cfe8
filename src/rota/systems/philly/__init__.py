"""Microsoft's Philly: gangs gathered close together under quotas."""
