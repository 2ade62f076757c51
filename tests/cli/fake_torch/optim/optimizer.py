import functools


class Optimizer:
    def __init__(self):
        self._patch_step_function()

    def _patch_step_function(self):
        if getattr(self.__class__.step, "hooked", None):
            return
        step = self.__class__.step

        @functools.wraps(step)
        def wrapper(*arguments, **named):
            return step(*arguments, **named)

        self.__class__.step = wrapper
        self.__class__.step.hooked = True

    def step(self):
        raise NotImplementedError
