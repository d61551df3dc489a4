"""The server: HTTP routes, the worker thread that computes, and the sessions of clients."""
