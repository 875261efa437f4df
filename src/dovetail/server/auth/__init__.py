"""Server-side authentication: token verifiers, challenges, expiry and DPoP replay checks."""
