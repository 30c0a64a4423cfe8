"""What every policy and every world shares: snapshot, decision, loop, guard, stages."""
