"""Who an agent plays against or is read by: challengers and judges."""
