from torch.optim.optimizer import SGD, Optimizer

del optimizer  # noqa: F821 (as torch does)
