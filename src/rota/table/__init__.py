"""The loop's table: jobs, phases, what each holds, what is free.  Below every policy and every world."""
