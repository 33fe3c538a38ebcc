"""What a guard looks at: each view says how far a row is outside of *its* covered set."""
