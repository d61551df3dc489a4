"""The Tinker protocol as data: JSON requests, protobuf messages, and the checks of their fields."""
