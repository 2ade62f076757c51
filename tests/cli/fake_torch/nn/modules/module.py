from torch import _C

_global_backward_pre_hooks = {}
_global_backward_hooks = {}
_global_forward_pre_hooks = {}
_global_forward_hooks = {}


class Module:
    _compiled_call_impl = None

    def __init__(self):
        self.__dict__.update(_modules={}, _backward_hooks={}, _backward_pre_hooks={}, _forward_hooks={}, _forward_pre_hooks={})

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

    def _wrapped_call_impl(self, *arguments, **named):
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*arguments, **named)
        return self._call_impl(*arguments, **named)

    def _call_impl(self, *arguments, **named):
        forward = self._slow_forward if _C._get_tracing_state() else self.forward
        if not (self._backward_hooks or self._backward_pre_hooks or self._forward_hooks or self._forward_pre_hooks
                or _global_backward_pre_hooks or _global_backward_hooks or _global_forward_hooks or _global_forward_pre_hooks):
            return forward(*arguments, **named)
        for hook in [*self._forward_pre_hooks.values(), *_global_forward_pre_hooks.values()]:
            hook(self, arguments)
        return forward(*arguments, **named)

    __call__ = _wrapped_call_impl
