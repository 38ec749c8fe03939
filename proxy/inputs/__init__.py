"""Recorded exchanges in the formats that people have them in, read into one form.

What belongs here: exchange files and JSON Lines of them, HAR, teeline's own audit logs, and telling them
apart by what they hold. What doesn't: the meaning of an exchange file (validators/exchangefile.py),
inspecting anything, reports.
"""
