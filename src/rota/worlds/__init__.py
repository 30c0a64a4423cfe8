"""What carries decisions out."""
