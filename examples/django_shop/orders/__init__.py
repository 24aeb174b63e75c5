"""The shop: an app of Django's."""
