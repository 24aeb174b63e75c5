"""Sign-in by OpenID Connect: people come in with the account of their company, and its groups say what they may do."""
