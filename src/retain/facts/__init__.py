"""What is known in one sentence each: kept as memories, and as a list that people edit."""
