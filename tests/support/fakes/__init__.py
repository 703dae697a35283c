"""External services that tests depend on: real processes speaking the protocol, no mocks of our own code."""
