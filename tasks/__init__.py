"""One LightningModule a task: loss, optimiser recipe, metrics and prediction files."""
