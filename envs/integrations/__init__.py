"""Environments in other toolkits. A toolkit is imported only by the module that is named after it."""
