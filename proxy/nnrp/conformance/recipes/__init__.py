"""Recipes that come with teeline, in the public suite's format; manifest.json lists them."""
