"""Tiny models that are made on the spot, with a tokenizer of their own."""
