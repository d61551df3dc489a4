"""Thin doors to other toolkits. Nothing here is imported with the package: each door needs an extra of its own."""
