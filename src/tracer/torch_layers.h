// Which layer a call of a PyTorch module is: scopes by the names of modules.
//
// The outermost module that is called is the root, and its layer has the name of its class; those inside are
// called as nn.Module.named_modules() of the root tells, element by element: "ResNet/layer1/0/conv1".
#pragma once

#include "tracer/python_api.h"

namespace headroom::tracer {

// The calling thread goes into the module's layer. False: it is in no layer (nothing is recorded, or calls
// nest too deep), and must not leave one.
bool enter_module(python::Object* module);
void leave_module();

// Python has ended.
void forget_layers();

}  // namespace headroom::tracer
