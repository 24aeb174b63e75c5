"""What ServiceControl's plug-ins send: heartbeats, results of custom checks, metrics. Off unless an endpoint asks."""
