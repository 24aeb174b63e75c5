"""Lanes: further queues of an endpoint, for order by key, for priority and for fairness."""
