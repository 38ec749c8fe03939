"""Configuration: what can be set, and how a file, the environment and flags become one."""
