"""What environments are made of: base classes, prompts, answer parsing, sample papers. No environment lives here."""
