"""What teeline costs, measured side by side: ``python -m bench`` from a checkout (README.md here).

Not part of the wheel. Figures of one machine say little; ratios between targets that were measured in
quick alternation say more.
"""
