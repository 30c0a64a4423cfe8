"""The controller: the store, the scheduler's thread, the policy processes, the API."""
