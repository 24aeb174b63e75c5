"""The history of sagas: a line for each transition, and completed sagas for as long as they are kept."""
