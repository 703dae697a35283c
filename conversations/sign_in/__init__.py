"""Sign-in beyond a password: by an OpenID provider, with a second factor, with a passkey. allauth does the work."""
