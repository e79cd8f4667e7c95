"""The trainer of pytorch-accelerated, with exact resume and reports to a master."""
