"""What is written about a run while it trains, and how a person follows it."""
