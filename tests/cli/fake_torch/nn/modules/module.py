class Module:
    def __init__(self):
        self.__dict__["_modules"] = {}

    def __setattr__(self, name, value):
        if isinstance(value, Module):
            self._modules[name] = value
        else:
            self.__dict__[name] = value

    def __getattr__(self, name):
        try:
            return self.__dict__["_modules"][name]
        except KeyError:
            raise AttributeError(name) from None

    def _call_impl(self, *arguments, **named):
        return self.forward(*arguments, **named)

    __call__ = _call_impl
