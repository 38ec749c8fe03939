"""NNRP connections that carry the profile openai-compatible/1: one inspector, many exchanges."""
