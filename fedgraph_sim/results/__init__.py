"""Reads run folders, finished or still growing, and shows them: tables, comparisons, a page. Needs no Ray, no torch."""
