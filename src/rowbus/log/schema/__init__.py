"""The schema `pgq`: installing, upgrading, taking over, verifying."""
