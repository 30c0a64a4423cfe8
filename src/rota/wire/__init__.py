"""The JSON messages between users, controller and agents: job specifications, orders, reports, views."""
