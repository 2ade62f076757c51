// What PyTorch reports: allocations on the CPU and on CUDA devices, autograd nodes, and the current position
// in TorchScript's interpreter. Also the clock of all events.
#pragma once

#include <cstdint>
#include <vector>

#include "memory_tracer/account.h"

namespace headroom::memory_tracer {

// While watched, CPU tensors are allocated through a wrapper around the existing allocator that reports to
// session.h; afterwards the original is restored. Blocks allocated meanwhile keep a deleter that reports
// their release.
void watch_cpu_allocator();
void unwatch_cpu_allocator();

// The totals of a device's allocator when a trace begins.
struct DeviceTotals {
  Device device;
  std::int64_t reserved, allocated;
};
// PyTorch cannot remove the caching allocator's tracker. So the tracker stays, and does nothing while no
// trace is open.
void watch_cuda_allocator();
std::vector<DeviceTotals> device_totals();
// Whether this library was built for CUDA and a device exists.
bool has_cuda();

// Autograd nodes as layers of the backward pass. A node stores the sequence number of its forward operator,
// which identifies the module whose gradients it computes.
void watch_backward();
void unwatch_backward();

struct ForwardPlace {
  std::uint64_t thread;  // PyTorch's thread number
  std::uint64_t sequence;
};
// The calling thread's position in the numbering of forward operators. Returns false if they are not numbered
// (inference).
bool forward_place(ForwardPlace& place);

// CLOCK_MONOTONIC, computed from the processor's counter if that runs at one rate: the kernel's clock takes
// twice as long. Calibrate before the first reading; that takes 10 ms, once.
void calibrate_clock();
std::int64_t now_ns();

// The current position in TorchScript's interpreter. The interpreter calls no modules that could be hooked,
// but it knows for each instruction the modules from which its code was inlined. This works for scripted,
// traced and frozen modules. A query at an allocation takes 0.4 to 1.7 µs inside the interpreter and nothing
// outside.
ScriptPlace script_place();

}  // namespace headroom::memory_tracer
