"""The agent of one machine: it runs the processes of jobs on its devices and reports to the controller."""
