"""The OpenAlex API: its client, its errors, the pages that were paid for, and the neighbourhood of a focal paper."""
