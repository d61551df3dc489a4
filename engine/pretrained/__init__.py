"""Real language models: fetched, checked and written as Hugging Face folders."""
