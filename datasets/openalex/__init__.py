"""OpenAlex works: from JSON records, snapshot parts or parquet files to the works table. The API is in `api`."""
