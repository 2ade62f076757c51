class Tensor:
    """A tensor with its own allocation."""

    __module__ = "torch"

    def __init__(self, size):
        self.content = bytearray(size)

    def backward(self, size=0):
        self.grad = bytearray(size)
        return self
