"""An NNRP server in front of any OpenAI-compatible one: submits become requests, answers become events."""
