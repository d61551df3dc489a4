"""What a score does not tell: contamination, flips under challenge, consistency, held-out likelihood."""
