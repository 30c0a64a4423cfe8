"""`rota doctor`: what this machine can do, each with a line of advice."""
