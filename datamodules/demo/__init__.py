"""Writers of small synthetic data sets in the published formats."""
