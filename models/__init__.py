"""Pure ``torch.nn`` modules: attention blocks, layers and models. They know no task and no Lightning."""
