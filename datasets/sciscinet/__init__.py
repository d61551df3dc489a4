"""SciSciNet (Lin, Yin, Liu & Wang 2023): a dataset built from its published tables and scores."""
