"""Outside parties that tests stand on: real processes of the wire, no mocks of our own code."""
