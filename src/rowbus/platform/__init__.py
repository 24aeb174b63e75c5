"""ServiceControl's plug-ins: heartbeats, results of custom checks, metrics. Off unless an endpoint asks."""
