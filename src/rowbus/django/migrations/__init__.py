"""Migrations of the app `rowbus.django`; they create no table."""
