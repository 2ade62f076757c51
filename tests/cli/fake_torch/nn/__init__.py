from torch.nn.modules import Module
