"""Pure ``torch.nn`` modules: attention, layers and models. They know no task and no Lightning."""
