"""What travels between user, controller and agents: job specifications, orders, reports, views."""
