"""`rota demo`: a live cluster for a minute, its jobs under two policies, a question and a crash."""
